import type { ComputeBackend, DeviceHandle, Operand } from "@backplane/core";
import type { Allocations } from "./allocations.js";

/**
 * The loss of one image with logits z and digit t: -log softmax(z)[t]. Everything is computed from
 * z - max(z), so that no exponential overflows.
 */
export class CrossEntropy {
  readonly #backend: ComputeBackend;
  readonly #classes: number;
  readonly #shifted: DeviceHandle;
  readonly #scratch: DeviceHandle;
  /** One number per row. */
  readonly #rowMax: DeviceHandle;
  readonly #rowSum: DeviceHandle;
  readonly #sums: DeviceHandle;

  constructor(backend: ComputeBackend, allocations: Allocations, batch: number, classes: number) {
    this.#backend = backend;
    this.#classes = classes;
    this.#shifted = allocations.zeros(batch * classes);
    this.#scratch = allocations.zeros(batch * classes);
    this.#rowMax = allocations.zeros(batch);
    this.#rowSum = allocations.zeros(batch);
    this.#sums = allocations.zeros(2);
  }

  /** slope (rows x classes) of each image's loss at its logits: softmax(z) - oneHot */
  slope(rows: number, logits: Operand, oneHot: Operand, slope: Operand): void {
    const n = rows * this.#classes;
    this.#rowByRow("max", rows, logits, this.#rowMax);
    this.#withRow("sub", rows, logits, this.#rowMax, this.#shifted);
    this.#backend.unary({ kind: "exp", n, input: this.#shifted, output: slope });
    this.#rowByRow("sum", rows, slope, this.#rowSum);
    this.#withRow("div", rows, slope, this.#rowSum, slope);
    this.#backend.binary({ kind: "sub", n, a: slope, b: oneHot, output: slope });
  }

  /** The mean loss of the images that `slope` was last called for. Waits for the device. */
  async loss(rows: number, oneHot: Operand): Promise<number> {
    const backend = this.#backend;
    const n = rows * this.#classes;
    // -log(exp(z[t] - max) / sum) = log(sum) - (z[t] - max), summed over the images in two parts.
    const parts = [0, 4].map((byteOffset): Operand => ({ handle: this.#sums, byteOffset }));
    backend.unary({ kind: "log", n: rows, input: this.#rowSum, output: this.#rowMax });
    backend.reduce({ kind: "sum", shape: [rows], input: this.#rowMax, output: parts[0]! });
    backend.binary({ kind: "mul", n, a: this.#shifted, b: oneHot, output: this.#scratch });
    backend.reduce({ kind: "sum", shape: [n], input: this.#scratch, output: parts[1]! });
    const sums = new Float32Array(2);
    await backend.copyDtoH(sums, this.#sums);
    return (sums[0]! - sums[1]!) / rows;
  }

  #rowByRow(kind: "max" | "sum", rows: number, input: Operand, output: Operand): void {
    this.#backend.reduce({ kind, shape: [rows, this.#classes], axes: [1], input, output });
  }

  #withRow(kind: "sub" | "div", rows: number, a: Operand, b: Operand, output: Operand): void {
    this.#backend.binary({ kind, a, shapeA: [rows, this.#classes], b, shapeB: [rows, 1], output });
  }
}
