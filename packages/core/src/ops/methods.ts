import type { AttentionArguments } from "./attention.js";
import type { BinaryArguments } from "./binary.js";
import type { Conv2dArguments } from "./conv2d.js";
import type { BatchedGemmArguments, GemmArguments } from "./gemm.js";
import type { OperationArguments, OperationName } from "./index.js";
import type { ReduceArguments } from "./reduce.js";
import type { UnaryArguments } from "./unary.js";

/** The operations of `ComputeBackend` as methods that all lead to one place. */
export abstract class OperationMethods {
  protected abstract run<Name extends OperationName>(name: Name, args: OperationArguments[Name]): void;

  gemm(args: GemmArguments): void {
    this.run("gemm", args);
  }

  batchedGemm(args: BatchedGemmArguments): void {
    this.run("batchedGemm", args);
  }

  conv2d(args: Conv2dArguments): void {
    this.run("conv2d", args);
  }

  attention(args: AttentionArguments): void {
    this.run("attention", args);
  }

  reduce(args: ReduceArguments): void {
    this.run("reduce", args);
  }

  unary(args: UnaryArguments): void {
    this.run("unary", args);
  }

  binary(args: BinaryArguments): void {
    this.run("binary", args);
  }
}
