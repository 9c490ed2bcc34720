import {
  type DeviceHandle,
  type Operand,
  type Operation,
  type OperationName,
  operations,
} from "@backplane/core";

/**
 * The arguments of one small call of each operation, without operands and without what may be left out. No
 * operand has more than 64 bytes.
 */
const rest: Readonly<Record<OperationName, Readonly<Record<string, unknown>>>> = {
  gemm: { m: 2, n: 2, k: 2 },
  batchedGemm: { batch: 2, m: 2, n: 2, k: 2 },
  conv2d: { inputShape: [1, 1, 2, 2], filterShape: [1, 1, 1, 1] },
  conv2dInputGradient: { inputShape: [1, 1, 2, 2], filterShape: [1, 1, 1, 1] },
  conv2dFilterGradient: { inputShape: [1, 1, 2, 2], filterShape: [1, 1, 1, 1] },
  attention: { batch: 1, heads: 1, queryLength: 2, keyLength: 2, headSize: 2 },
  attentionGradient: { batch: 1, heads: 1, queryLength: 2, keyLength: 2, headSize: 2 },
  reduce: { kind: "sum", shape: [2, 2] },
  argReduce: { kind: "argMax", shape: [2, 2] },
  pool2d: { kind: "max", inputShape: [1, 1, 2, 2], kernel: [2, 2] },
  resize2d: { kind: "nearest", inputShape: [1, 1, 2, 2], outputHeight: 3, outputWidth: 3 },
  pool2dGradient: { kind: "mean", inputShape: [1, 1, 2, 2], kernel: [2, 2] },
  resize2dGradient: { kind: "nearest", inputShape: [1, 1, 2, 2], outputHeight: 3, outputWidth: 3 },
  quantizedGemm: { m: 2, n: 2, k: 2 },
  quantize: { n: 2, k: 2 },
  scan: { kind: "sum", shape: [2, 2] },
  sort: { shape: [2, 2] },
  unary: { kind: "neg", n: 4 },
  binary: { kind: "add", n: 4 },
  softmax: { kind: "softmax", shape: [2, 2] },
  softmaxGradient: { kind: "softmax", shape: [2, 2] },
  random: { kind: "uniform", count: 4, seed: 1 },
  normalize: { kind: "layer", rows: 2, size: 2 },
  normalizeGradient: { kind: "layer", rows: 2, size: 2 },
  copy: { shape: [2, 2] },
  gather: { shape: [2, 2], indexShape: [2, 1] },
  map: { shape: [4], nodes: [{ input: 0 }, { unary: "neg", x: 0 }], results: [1] },
  select: { n: 4 },
  scatter: { kind: "add", shape: [2, 2], indexShape: [2, 1] },
  rope: { kind: "halves", rows: 2, size: 2, length: 2 },
};

/** The operands that a call must have, in the order of the table; the first output if it must have any one of them. */
export function operandsOf(name: OperationName): readonly string[] {
  const { arguments: table, operands } = operations[name] as Operation;
  const needed = operands.filter((operand) => !("otherwise" in table[operand]!));
  const outputs = operands.filter((operand) => table[operand]!.role !== "reads");
  return needed.some((operand) => outputs.includes(operand)) ? needed : [...needed, outputs[0]!];
}

/** Returns the arguments of a small call; `place` says where the i-th operand is. */
export function smallCall(
  name: OperationName,
  place: (i: number) => Operand,
): Readonly<Record<string, unknown>> {
  const { arguments: table }: Operation = operations[name];
  const operands = operandsOf(name).map((operand, i) => {
    const isList = "list" in table[operand]!;
    return [operand, isList ? [place(i)] : place(i)];
  });
  // A copy, with lists that the caller may change.
  return { ...structuredClone(rest[name]), ...Object.fromEntries(operands) };
}

/** The arguments that a small call leaves out. */
export function optionalNames(name: OperationName): readonly string[] {
  const given = Object.keys(smallCall(name, () => 1 as DeviceHandle));
  return operations[name].names.filter((argument) => !given.includes(argument));
}
