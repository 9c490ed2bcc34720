import {
  type BackendError,
  binaryKinds,
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypes,
  type OperationName,
  operationNames,
  reduceKinds,
  unaryKinds,
} from "@backplane/core";
import type { Law } from "../law.js";

/** A smallest call of each operation, on allocations of 16 bytes. */
function callOf(
  backend: ComputeBackend,
  operation: OperationName,
  dtype: DType,
  kind: string | undefined,
  [a, b, c]: readonly [DeviceHandle, DeviceHandle, DeviceHandle],
): void {
  const activation = kind === "epilogue" ? ({ activation: "relu" } as const) : {};
  const bias = kind === "epilogue" ? { bias: b } : {};
  const one = { m: 1, n: 1, k: 1, a, b, c, dtype, ...bias, ...activation };
  const calls: Record<OperationName, () => void> = {
    gemm: () => backend.gemm(one),
    batchedGemm: () => backend.batchedGemm({ ...one, batch: 1 }),
    conv2d: () =>
      backend.conv2d({
        ...{ inputShape: [1, 1, 1, 1], filterShape: [1, 1, 1, 1], input: a, filter: b, output: c, dtype },
        ...activation,
      }),
    attention: () =>
      backend.attention({
        ...{ batch: 1, heads: 1, queryLength: 1, keyLength: 1, headSize: 1, q: a, k: b, v: a, out: c, dtype },
      }),
    reduce: () => backend.reduce({ kind: kind as "sum", shape: [2], input: a, output: c, dtype }),
    unary: () => backend.unary({ kind: kind as "abs", n: 1, input: a, output: c, dtype }),
    binary: () => backend.binary({ kind: kind as "add", n: 1, a, b, output: c, dtype }),
  };
  calls[operation]();
}

const kindsOf: Partial<Record<OperationName, readonly (string | undefined)[]>> = {
  gemm: [undefined, "epilogue"],
  batchedGemm: [undefined, "epilogue"],
  conv2d: [undefined, "epilogue"],
  reduce: reduceKinds,
  unary: unaryKinds,
  binary: binaryKinds,
};

/** A backend has what it declares and refuses what it does not declare: never a wrong result. */
export const supportsLaws: readonly Law[] = [
  ...operationNames.flatMap((operation) => dtypes.map((dtype) => answersTruly(operation, dtype))),
  {
    topic: "supports",
    name: "capabilities list exactly the element types that some operation takes",
    run: async ({ backend }) => {
      const used = dtypes.filter((dtype) => operationNames.some((name) => backend.supports(name, dtype)));
      const listed = [...backend.capabilities.dtypes];
      if (listed.length !== used.length || used.some((dtype) => !listed.includes(dtype)))
        throw new Error(
          `capabilities.dtypes is [${listed.join(", ")}], but supports() says [${used.join(", ")}]`,
        );
    },
  },
  {
    topic: "supports",
    name: "is false for kinds that there are not, and for kinds of operations without any",
    run: async ({ backend }) => {
      for (const [operation, dtype] of [
        ["softmax", "f32"],
        ["constructor", "f32"],
        ["gemm", "f64"],
      ] as unknown as readonly (readonly [OperationName, DType])[])
        if (backend.supports(operation, dtype) !== false)
          throw new Error(`supports("${operation}", "${dtype}") is not false`);
      for (const [operation, kind] of [
        ["unary", "add"],
        ["binary", "relu"],
        ["reduce", "median"],
        ["gemm", "sum"],
        ["unary", "epilogue"],
        ["attention", "epilogue"],
      ] as const)
        if (backend.supports(operation, "f32", kind))
          throw new Error(`supports("${operation}", "f32", "${kind}") is true`);
    },
  },
];

function answersTruly(operation: OperationName, dtype: DType): Law {
  return {
    topic: "supports",
    name: `${operation} in ${dtype}: declared calls work, undeclared ones throw UNSUPPORTED`,
    run: async ({ backend }) => {
      const handles = [backend.alloc(16), backend.alloc(16), backend.alloc(16)] as const;
      try {
        for (const kind of kindsOf[operation] ?? [undefined]) {
          const declared = backend.supports(operation, dtype, kind);
          const code = codeOf(() => callOf(backend, operation, dtype, kind, handles));
          const what = [operation, kind, dtype].filter((part) => part !== undefined).join(" ");
          if (declared && code !== undefined) throw new Error(`${what} is declared, but throws ${code}`);
          if (!declared && code !== "UNSUPPORTED")
            throw new Error(
              `${what} is not declared, but ${code === undefined ? "works" : `throws ${code}`}`,
            );
        }
        // A fault of a declared call may only show here.
        await backend.synchronize();
      } finally {
        for (const handle of handles) backend.free(handle);
      }
    },
  };
}

function codeOf(body: () => void): string | undefined {
  try {
    body();
    return undefined;
  } catch (error) {
    // By its name: a second copy of the class in the program does no harm.
    const { name, code } = (error ?? {}) as Partial<BackendError>;
    return name === "BackendError" ? code : String(error);
  }
}
