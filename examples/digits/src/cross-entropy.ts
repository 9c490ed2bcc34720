import type { ComputeBackend, DeviceHandle, Operand } from "@backplane/core";
import type { Allocations } from "./allocations.js";

/** The loss of one image with logits z and digit t: -log softmax(z)[t]. */
export class CrossEntropy {
  readonly #backend: ComputeBackend;
  readonly #classes: number;
  /** log softmax(z) of each row, and those at the digits among zeros. */
  readonly #logarithms: DeviceHandle;
  readonly #losses: DeviceHandle;
  readonly #sum: DeviceHandle;

  constructor(backend: ComputeBackend, allocations: Allocations, batch: number, classes: number) {
    this.#backend = backend;
    this.#classes = classes;
    this.#logarithms = allocations.zeros(batch * classes);
    this.#losses = allocations.zeros(batch * classes);
    this.#sum = allocations.zeros(1);
  }

  /** slope (rows x classes) of each image's loss at its logits: softmax(z) - oneHot, of which oneHot is in u8 */
  slope(rows: number, logits: Operand, oneHot: Operand, slope: Operand): void {
    const shape = [rows, this.#classes];
    const output = this.#logarithms;
    this.#backend.softmax({ kind: "logSoftmax", shape, input: logits, output });
    this.#backend.map({
      ...{ shape, inputs: [output, oneHot], inputTypes: ["f32", "u8"], outputs: [slope], results: [-1] },
      nodes: [
        { input: 0 },
        { input: 1 },
        { unary: "exp", x: 0 },
        { convert: "f32", x: 1 },
        { binary: "sub", a: 2, b: 3 },
      ],
    });
  }

  /** The mean loss of the images that `slope` was last called for. Waits for the device. */
  async loss(rows: number, oneHot: Operand): Promise<number> {
    const backend = this.#backend;
    const n = rows * this.#classes;
    // A product with oneHot would make NaN of a logarithm of -Infinity.
    backend.select({ n, condition: oneHot, a: this.#logarithms, b: { scalar: 0 }, output: this.#losses });
    backend.reduce({ kind: "sum", shape: [n], input: this.#losses, output: this.#sum });
    const sum = new Float32Array(1);
    await backend.copyDtoH(sum, this.#sum);
    return -sum[0]! / rows;
  }
}
