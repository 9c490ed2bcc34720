import {
  type Argument,
  type BackendError,
  type ComputeBackend,
  type DType,
  dtypes,
  type OperationName,
  operationNames,
  operations,
  type Question,
} from "@backplane/core";
import { argumentsOf } from "../kit/arguments.js";
import type { Law } from "../law.js";
import { smallCalls, type TestCall } from "./calls.js";

/** A backend has what it declares and refuses what it does not declare: never a wrong result. */
export const supportsLaws: readonly Law[] = [
  ...operationNames.flatMap((operation) => dtypes.map((dtype) => answersTruly(operation, dtype))),
  {
    topic: "supports",
    name: "capabilities list exactly the element types that some operation takes",
    run: async ({ backend }) => {
      const used = dtypes.filter((dtype) => operationNames.some((name) => backend.supports(name, { dtype })));
      const listed = [...backend.capabilities.dtypes];
      if (listed.length !== used.length || used.some((dtype) => !listed.includes(dtype)))
        throw new Error(
          `capabilities.dtypes is [${listed.join(", ")}], but supports() says [${used.join(", ")}]`,
        );
    },
  },
  {
    topic: "supports",
    name: "is false for names and values that no operation has",
    run: async ({ backend }) => {
      for (const [operation, question] of [
        ["nonsense", {}],
        ["constructor", {}],
        ["gemm", { dtype: "f63" }],
        ["unary", { kind: "nonsense" }],
        ["reduce", { kind: "constructor" }],
        ["gemm", { kind: "nonsense" }],
        ["gemm", { activation: "nonsense" }],
        ["attention", { nonsense: true }],
      ] as unknown as readonly (readonly [OperationName, Question])[])
        if (backend.supports(operation, question) !== false)
          throw new Error(`supports("${operation}", ${JSON.stringify(question)}) is not false`);
    },
  },
];

/** All that a backend may have or lack of one operation and element type, each alone. */
function questionsOf(operation: OperationName, dtype: DType): readonly Question[] {
  const { decisive } = operations[operation];
  const kinds = decisive.find(({ role }) => role === "kind")?.values ?? [];
  return [
    ...(kinds.length === 0 ? [{ dtype }] : kinds.map((kind) => ({ dtype, kind: String(kind) }))),
    ...decisive
      .filter(({ role }) => role === "option")
      .flatMap(({ argument, values }) => (values ?? [true]).map((value) => ({ dtype, [argument]: value }))),
  ];
}

function answersTruly(operation: OperationName, dtype: DType): Law {
  return {
    topic: "supports",
    name: `${operation} in ${dtype}: declared calls work, undeclared ones throw UNSUPPORTED`,
    run: async ({ backend }) => {
      const call = smallCalls[operation];
      for (const asked of questionsOf(operation, dtype)) {
        const { kind } = call.rest as { readonly kind?: string };
        const declared = backend.supports(operation, { kind, ...asked });
        const code = await codeOf(backend, call, asked);
        const what = `${operation} with ${JSON.stringify(asked)}`;
        if (declared && code !== undefined) throw new Error(`${what} is declared, but throws ${code}`);
        if (!declared && code !== "UNSUPPORTED")
          throw new Error(`${what} is not declared, but ${code === undefined ? "works" : `throws ${code}`}`);
      }
    },
  };
}

/** Another kind need not take operands that a call may leave out, except that each call has an output. */
function neededOf({ operands, outputs }: TestCall, table: Readonly<Record<string, Argument>>): string[] {
  // Entries of lists, which have names of their own, are needed.
  const needed = Object.keys(operands).filter((name) => !("otherwise" in (table[name] ?? {})));
  return outputs.some((name) => needed.includes(name)) ? needed : [...needed, ...outputs.slice(0, 1)];
}

/** Makes the call with what is asked for. Returns the code of the error that it throws. */
async function codeOf(backend: ComputeBackend, call: TestCall, asked: Question): Promise<string | undefined> {
  const table: Readonly<Record<string, Argument>> = operations[call.operation].arguments;
  const isOption = (name: string) => asked[name] === true;
  const isOperand = (name: string) => ["reads", "updates", "writes"].includes(table[name]!.role);
  const extra = Object.keys(asked).filter((name) => isOption(name) && isOperand(name));
  // An option that is neither a choice nor an operand is a number.
  const numbers = Object.keys(asked).filter((name) => isOption(name) && table[name]!.role === "extent");
  const isOfAnotherKind = asked.kind !== undefined && asked.kind !== call.rest.kind;
  const names = [...(isOfAnotherKind ? neededOf(call, table) : Object.keys(call.operands)), ...extra];
  // Enough for any element type, and for an operand that the call does not have.
  const handles = names.map((name) => [name, backend.alloc(4 * (call.operands[name] ?? 64))] as const);
  try {
    backend.run(
      call.operation,
      argumentsOf({
        ...{ ...call.rest, ...asked, ...Object.fromEntries(handles) },
        ...Object.fromEntries(numbers.map((name) => [name, 1])),
      }) as never,
    );
    // A fault of a declared call may only show here.
    await backend.synchronize();
    return undefined;
  } catch (error) {
    // By its name: a second copy of the class in the program does no harm.
    const { name, code } = (error ?? {}) as Partial<BackendError>;
    return name === "BackendError" ? code : String(error);
  } finally {
    for (const [, handle] of handles) backend.free(handle);
  }
}
