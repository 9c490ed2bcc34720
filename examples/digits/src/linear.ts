import type { ComputeBackend, GemmArguments, Operand } from "@backplane/core";

/** How new gradients are added to old ones: gradients = keep gradients + scale (new ones). */
export interface Blend {
  readonly keep: number;
  readonly scale: number;
}

/** A layer's numbers, each weight matrix `inputs` x `outputs`, each bias `outputs`. */
export interface LinearArrays {
  readonly weights: Operand;
  readonly bias: Operand;
}

/** A fully connected layer: output = activation(input W + b); each row is one image. */
export class Linear {
  readonly #backend: ComputeBackend;
  readonly #parameters: LinearArrays;
  readonly #gradients: LinearArrays;
  readonly #ones: Operand;
  readonly inputs: number;
  readonly outputs: number;

  constructor(
    backend: ComputeBackend,
    shape: { readonly inputs: number; readonly outputs: number },
    parameters: LinearArrays,
    gradients: LinearArrays,
    /** As many ones as there may be rows. */
    ones: Operand,
  ) {
    this.#backend = backend;
    this.inputs = shape.inputs;
    this.outputs = shape.outputs;
    this.#parameters = parameters;
    this.#gradients = gradients;
    this.#ones = ones;
  }

  /** output (rows x outputs) = activation(input (rows x inputs) W + b), in one call; the activation is optional */
  forward(rows: number, input: Operand, output: Operand, epilogue: Pick<GemmArguments, "activation">): void {
    const { weights, bias } = this.#parameters;
    this.#backend.gemm({
      m: rows,
      n: this.outputs,
      k: this.inputs,
      a: input,
      b: weights,
      c: output,
      bias,
      ...epilogue,
    });
  }

  /**
   * With D the slope of each image's loss at input W + b, and the loss their mean:
   *
   *   dW = input^T D / rows,  db = ones^T D / rows,  inputSlope = D W^T
   *
   * dW and db are blended with the existing gradients through gemm's alpha and beta. The first layer has
   * nothing before it, and no input slope to compute.
   */
  backward(
    rows: number,
    input: Operand,
    slope: Operand,
    inputSlope: Operand | undefined,
    { keep, scale }: Blend,
  ): void {
    const { inputs, outputs } = this;
    const blend = { alpha: scale / rows, beta: keep };
    this.#backend.gemm({
      m: inputs,
      n: outputs,
      k: rows,
      a: input,
      transA: true,
      b: slope,
      c: this.#gradients.weights,
      ...blend,
    });
    this.#backend.gemm({
      m: 1,
      n: outputs,
      k: rows,
      a: this.#ones,
      b: slope,
      c: this.#gradients.bias,
      ...blend,
    });
    if (inputSlope === undefined) return;
    this.#backend.gemm({
      m: rows,
      n: inputs,
      k: outputs,
      a: slope,
      b: this.#parameters.weights,
      transB: true,
      c: inputSlope,
    });
  }
}
