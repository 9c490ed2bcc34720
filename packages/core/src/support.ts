import type { ComputeBackend } from "./backend.js";
import type { BackendDriver, Kernel } from "./driver.js";
import { type DType, dtypes } from "./dtype.js";
import { BackendError } from "./errors.js";
import { Checks } from "./ops/checks.js";
import type { OperationName, Operations } from "./ops/index.js";
import type { DecisiveArgument, Operation } from "./ops/operation.js";

/**
 * Calls that a kernel takes: for each decisive argument the values that it may have, or `true` for any value.
 * Every element type must be listed. A kind that is not listed may have any value. An option that is not
 * listed must be left out.
 *
 *   { dtype: ["f32", "f16"], bias: true, activation: ["relu"] }
 */
export type Support = Readonly<Record<string, readonly (string | boolean)[] | true>>;

/**
 * The arguments of a call, as far as they decide whether a backend can run it. What is left out has its
 * default; without a kind the question is whether there is any. An optional operand may be `true`.
 */
export interface Question {
  readonly dtype?: DType | undefined;
  readonly kind?: string | undefined;
  readonly [argument: string]: unknown;
}

type Arguments = Readonly<Record<string, unknown>>;

/** Whether one of these covers the question. False also for names and values that the operation does not know. */
export function supportsQuestion(
  operation: Operation,
  supports: readonly Support[],
  question: Question,
): boolean {
  const asked = Object.keys(question).filter((name) => question[name] !== undefined);
  if (asked.some((name) => !operation.names.includes(name))) return false;
  return supports.some((support) => covers(operation.decisive, support, question));
}

function covers(decisive: readonly DecisiveArgument[], support: Support, args: Arguments): boolean {
  return decisive.every(({ argument, role, values, default: fallback }) => {
    const value = args[argument] ?? fallback;
    if (value === undefined) return true;
    const allowed = support[argument] ?? (role === "kind" ? true : []);
    return entriesOf(value).every((entry) => {
      if (values !== undefined && !values.includes(entry as string)) return false;
      return allowed === true || allowed.includes(entry as string);
    });
  });
}

/** Returns the values of an argument that is a list, such as element types, and else the one value. */
function entriesOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

/** The calls that a kernel takes: all, or those that one of these covers. */
type Fitting = true | readonly Support[];

/**
 * Returns a function that tells quickly whether a kernel takes a call. It may be true of calls that the
 * argument checks refuse.
 */
export function callTest(operation: Operation, { supports }: Kernel<never>): (args: object) => boolean {
  const { decisive, kinds } = operation;
  const type = decisive.find(({ argument }) => argument === "dtype");
  if (type === undefined)
    return (args) => supports.some((support) => covers(decisive, support, (args ?? {}) as Arguments));
  const others = decisive.filter((argument) => argument !== type);
  const options = others.filter(({ role }) => role !== "kind");
  // Many kernels take every kind and option of a type, and most every option of a kind: then nobody needs to look at
  // the others. Going through lists of kinds instead took a sixth of a small call.
  const fittingOf = (dtype: DType | undefined): Fitting | Map<unknown, Fitting> => {
    const ofType = supports.filter((support) => covers([type], support, { dtype }));
    const all = shortest(ofType, others);
    if (all === true || kinds === undefined) return all;
    const ofKind = (kind: string) => ofType.filter((support) => covers(others, support, { kind }));
    return new Map(kinds.map((kind) => [kind, shortest(ofKind(kind), options)]));
  };
  const byType: Record<string, Fitting | Map<unknown, Fitting>> = Object.create(null);
  for (const dtype of dtypes) byType[dtype] = fittingOf(dtype);
  // Without a default, the type that a call leaves out follows from its other arguments.
  const byDefault = fittingOf(undefined);
  return (args) => {
    if (typeof args !== "object" || args === null || Array.isArray(args)) return false;
    const { dtype, kind } = args as Question;
    // Other values may have no text, and then the look-up would throw.
    const ofType = dtype === undefined ? byDefault : typeof dtype === "string" ? byType[dtype] : undefined;
    if (ofType === true) return true;
    const fitting = ofType instanceof Map ? ofType.get(kind) : ofType;
    return (
      fitting === true || (fitting?.some((support) => covers(options, support, args as Arguments)) ?? false)
    );
  };
}

/** Returns `true` in place of a list if one of it takes these arguments whatever they are. */
function shortest(supports: readonly Support[], decisive: readonly DecisiveArgument[]): Fitting {
  return supports.some((support) => coversAll(decisive, support)) || supports;
}

/** Whether a kernel takes these arguments whatever they are. */
function coversAll(decisive: readonly DecisiveArgument[], support: Support): boolean {
  return decisive.every(({ argument, role, values }) => {
    const allowed = support[argument] ?? (role === "kind" ? true : []);
    return allowed === true || (values?.every((value) => allowed.includes(value)) ?? false);
  });
}

/** Returns the element types that a kernel takes for any of its operands. */
export function typesTaken(operation: Operation, kernel: Kernel<never> | undefined): readonly DType[] {
  const types = operation.decisive.filter(({ role }) => role === "elementType");
  return dtypes.filter((dtype) =>
    types.some((type) =>
      kernel?.supports.some((support) => covers([type], support, { [type.argument]: dtype })),
    ),
  );
}

/**
 * Returns the question whether a call can run. Undefined if an element type, kind or option has a value that no
 * backend has: the argument checks know the allowed ones.
 */
export function questionOf(
  { name, decisive, arguments: table }: Operation,
  args: object,
): Question | undefined {
  new Checks(name).object("arguments", args);
  const asked: Record<string, unknown> = {};
  for (const { argument, role, values, default: fallback } of decisive) {
    const given = (args as Arguments)[argument] ?? undefined;
    const value = given ?? fallback;
    if (value === undefined) continue;
    const known: readonly unknown[] | undefined = role === "elementType" ? dtypes : values;
    if (known !== undefined) {
      const isMalformed = given !== undefined && Array.isArray(given) !== "list" in table[argument]!;
      if (isMalformed || !entriesOf(value).every((entry) => known.includes(entry))) return undefined;
    }
    asked[argument] = values === undefined ? true : value;
  }
  return asked;
}

/**
 * Throws `UNSUPPORTED` if the backend cannot run a call because of its element types, kind or options. Values
 * that no backend has are left to the argument checks.
 */
export function assertSupported(backend: ComputeBackend, operation: Operation, args: object): void {
  const { name } = operation;
  const asked = questionOf(operation, args);
  if (asked === undefined) return;
  if (backend.supports(operation, asked)) return;
  const wanted = Object.entries(asked).map(([argument, value]) =>
    value === true ? argument : `${argument} ${value}`,
  );
  throw new BackendError(
    "UNSUPPORTED",
    `${name}: ${wanted.length === 0 ? "it" : wanted.join(" with ")} is not available on ${backend.name}; see supports()`,
    { operation: name },
  );
}

/** Throws `INVALID_ARGUMENT` if `ownKernels` has an operation of core, or one twice. */
export function checkOwnKernels<Memory>(
  { ownKernels = [] }: BackendDriver<Memory>,
  operations: Partial<Operations>,
): void {
  const checks = new Checks("createBackend");
  const defined = new Set<Operation>();
  for (const { operation } of ownKernels) {
    if (operations[operation.name as OperationName] === (operation as unknown))
      checks.fail("ownKernels", `has ${operation.name}, which belongs in kernels`);
    if (defined.has(operation)) checks.fail("ownKernels", `has ${operation.name} twice; allowed: once`);
    defined.add(operation);
  }
}
