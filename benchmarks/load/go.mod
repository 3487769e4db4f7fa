module kohort/benchmarks/load

go 1.21
