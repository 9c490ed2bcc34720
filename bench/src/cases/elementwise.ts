import { type Case, type CaseOptions, epsilon, operationCase } from "./case.js";

const functions = {
  exp: Math.exp,
  tanh: Math.tanh,
  relu: (x: number) => Math.max(x, 0),
  gelu: (x: number) => (x / 2) * (1 + errorFunction(x / Math.SQRT2)),
};

export function unary(kind: keyof typeof functions, n: number, options: CaseOptions = {}): Case {
  return operationCase({
    name: `${kind} of ${n}`,
    operation: "unary",
    dtype: "f32",
    inputs: { input: n },
    output: { argument: "output", elements: n },
    args: ({ input, output }) => ({ kind, n, input: input!, output: output! }),
    expected({ input }, index) {
      const x = input!.at(index);
      const value = functions[kind](x);
      // erf may be off by 2^-20, relative to its argument near 0, and gelu takes half of that times x.
      const slack = kind === "gelu" ? 2 ** -20 * Math.abs(x) : 0;
      return { value, tolerance: 8 * epsilon.f32 * Math.abs(value) + slack + 2 ** -126 };
    },
    problem: { kind, n },
    ...options,
  });
}

/** erf by its Maclaurin series, which converges fast for the |x| < 1 of these inputs. */
function errorFunction(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18; n++) {
    term *= -(x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

const functionsOfTwo = {
  add: (a: number, b: number) => a + b,
  mul: (a: number, b: number) => a * b,
  /** A truth value. */
  greater: (a: number, b: number) => Number(a > b),
};

/** Adds, multiplies or compares two arrays of one shape, or one row and every row. */
export function binary(
  kind: keyof typeof functionsOfTwo,
  rows: number,
  columns: number,
  broadcast: boolean,
  options: CaseOptions = {},
): Case {
  const n = rows * columns;
  return operationCase({
    name: broadcast ? `${kind} a row to ${rows} x ${columns}` : `${kind} ${n}`,
    operation: "binary",
    dtype: "f32",
    inputs: { a: n, b: broadcast ? columns : n },
    output: { argument: "output", elements: n, dtype: kind === "greater" ? "u8" : "f32" },
    args: ({ a, b, output }) => ({
      kind,
      ...(broadcast ? { shapeA: [rows, columns], shapeB: [columns] } : { n }),
      a: a!,
      b: b!,
      output: output!,
    }),
    expected({ a, b }, index) {
      const value = functionsOfTwo[kind](a!.at(index), b!.at(broadcast ? index % columns : index));
      return { value, tolerance: kind === "greater" ? 0 : epsilon.f32 * Math.abs(value) };
    },
    problem: { kind, rows, columns, broadcast },
    ...options,
  });
}

export function add(rows: number, columns: number, broadcast: boolean, options: CaseOptions = {}): Case {
  return binary("add", rows, columns, broadcast, options);
}
