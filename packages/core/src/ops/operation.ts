import type { DType } from "../dtype.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { argumentsRead, type Binder, Reader, startCount } from "./reader.js";
import type { ArgumentsOf, ArgumentTable } from "./table.js";

/**
 * Everything core knows about one operation; made by `defineOperation`.
 *
 * Callers pass arguments. Kernels receive a problem: every default is filled in, every operand is a region,
 * and special cases are reduced to one form. The binder determines the memory of the regions.
 */
export interface Operation<Arguments extends object = object, Problem extends object = object> {
  readonly name: string;
  readonly arguments: ArgumentTable;
  /** The names of all arguments. */
  readonly names: readonly string[];
  /** The arguments that may hold operands; those that are only read come first. */
  readonly operands: readonly string[];
  /** The values of the argument `kind`, if the operation has one. */
  readonly kinds: readonly string[] | undefined;
  /** The arguments that decide whether a backend can run a call; element types come first. */
  readonly decisive: readonly DecisiveArgument[];
  /**
   * Checks the arguments. Returns undefined if nothing is left to do, and a `Fill` if only the output is left
   * to fill.
   */
  resolve(args: Arguments, binder: Binder<unknown>): Problem | Fill | undefined;
  /** Floating-point operations: a multiply-add counts 2, any other function of one element 1. */
  flops(problem: Problem): number;
  /** Bytes that must cross memory at least once: each input element is read, each output element written. */
  bytes(problem: Problem): number;
}

/** An output that holds one known value. */
export class Fill {
  readonly region: Region<unknown>;
  readonly value: number;
  readonly dtype: DType;

  constructor(region: Region<unknown>, value: number, dtype: DType) {
    this.region = region;
    this.value = value;
    this.dtype = dtype;
  }
}

export interface OperationDefinition<Table extends ArgumentTable, Problem extends object> {
  readonly name: string;
  /** In the order of the documentation. */
  readonly arguments: Table;
  /**
   * Reads every argument once with `read`, checks how the arguments fit together, and returns the problem.
   * Must refuse outputs that overlap inputs (`read.disjoint`).
   */
  resolve(args: ArgumentsOf<Table>, binder: Binder<unknown>, read: Reader<Table>): Problem | Fill | undefined;
  flops(problem: Problem): number;
  /**
   * Counts the names of the arguments with a `for ... in` loop of its own. Engines make such a loop fast for
   * the few forms that the arguments of one operation have, which is worth a tenth of a small call. Default:
   * a loop that all operations share.
   */
  countNames?(args: ArgumentsOf<Table>): number;
  /** Default: the bytes of the problem's regions; a region that is both read and written counts twice. */
  bytes?(problem: Problem): number;
}

/** Makes an operation from the table of its arguments and the functions of its definition. */
export function defineOperation<const Table extends ArgumentTable, Problem extends object>(
  definition: OperationDefinition<Table, Problem>,
): Operation<ArgumentsOf<Table>, Problem> {
  const { name, arguments: table, countNames = countOfNames } = definition;
  const names = Object.keys(table);
  const withRoles = (...roles: readonly string[]) =>
    names.filter((argument) => roles.includes(table[argument]!.role));
  const operands = [...withRoles("reads"), ...withRoles("updates", "writes")];
  const read = new Reader<Table>(name);
  const kind = Object.values(table).find((argument) => argument.role === "kind");
  return {
    name,
    arguments: table,
    names,
    operands,
    kinds: kind && Object.keys(kind.kinds),
    decisive: decisiveIn(table),
    resolve(args, binder) {
      startCount();
      let problem: Problem | Fill | undefined;
      try {
        problem = definition.resolve(args, binder, read);
      } catch (error) {
        // A misspelt name may well be the reason why another one is missing.
        checkNames<object>(name, args, names as never[]);
        throw error;
      }
      if (countNames(args) !== argumentsRead()) checkNames<object>(name, args, names as never[]);
      return problem;
    },
    flops: definition.flops,
    bytes: definition.bytes ?? ((problem) => bytesOf(table, operands, problem)),
  };
}

function countOfNames(args: object): number {
  let names = 0;
  for (const _ in args) names++;
  return names;
}

/** An element type, the kind, or an option that not every backend has. */
export interface DecisiveArgument {
  readonly argument: string;
  readonly role: "elementType" | "kind" | "option";
  /** Undefined: any value, such as an operand. */
  readonly values: readonly (string | boolean)[] | undefined;
  readonly default: DType | undefined;
}

function decisiveIn(table: ArgumentTable): readonly DecisiveArgument[] {
  const entries = Object.entries(table);
  const types = entries.flatMap(([argument, given]): readonly DecisiveArgument[] => {
    if (given.role !== "elementType") return [];
    return [{ argument, role: "elementType", values: given.types, default: given.default }];
  });
  const others = entries.flatMap(([argument, given]): readonly DecisiveArgument[] => {
    if (given.role === "kind")
      return [{ argument, role: "kind", values: Object.keys(given.kinds), default: undefined }];
    if (given.role === "elementType" || given.option !== true) return [];
    const values = given.role === "choice" ? given.values : undefined;
    return [{ argument, role: "option", values, default: undefined }];
  });
  return [...types, ...others];
}

function bytesOf(table: ArgumentTable, operands: readonly string[], problem: object): number {
  let bytes = 0;
  for (const name of operands) {
    const held = (problem as Readonly<Record<string, unknown>>)[name];
    const times = table[name]!.role === "updates" ? 2 : 1;
    for (const one of Array.isArray(held) ? held : [held]) bytes += times * regionBytes(one);
  }
  return bytes;
}

/**
 * Returns the bytes of a problem's operand: a region, an input with strides, a scalar (0 bytes) or nothing (0 bytes).
 */
function regionBytes(held: unknown): number {
  const { byteLength, region } = (held ?? {}) as Partial<Region<unknown>> & {
    readonly region?: Region<unknown>;
  };
  return byteLength ?? region?.byteLength ?? 0;
}
