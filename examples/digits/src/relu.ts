import type { ComputeBackend, Operand } from "@backplane/core";

/** slope = slope if output > 0, else 0: the derivative of relu, at x where output = relu(x). */
export function reluBackward(backend: ComputeBackend, n: number, output: Operand, slope: Operand): void {
  backend.map({
    ...{ shape: [n], inputs: [output, slope], outputs: [slope], results: [-1] },
    nodes: [
      { input: 0 },
      { input: 1 },
      { constant: 0 },
      { binary: "greater", a: 0, b: 2 },
      { select: 3, a: 1, b: 2 },
    ],
  });
}
