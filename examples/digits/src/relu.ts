import type { ComputeBackend, Operand } from "@backplane/core";

/** slope = slope if output > 0, else 0: sign(relu(x)) is the derivative of relu at x. */
export function reluBackward(
  backend: ComputeBackend,
  n: number,
  arrays: { readonly output: Operand; readonly slope: Operand; readonly scratch: Operand },
): void {
  const { output, slope, scratch } = arrays;
  backend.unary({ kind: "sign", n, input: output, output: scratch });
  backend.binary({ kind: "mul", n, a: slope, b: scratch, output: slope });
}
