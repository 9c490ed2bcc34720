import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";
import type { MapNode } from "./map/nodes.js";

/**
 * The description of one argument of an operation. A table has one for each argument. The argument's type,
 * name check, default, value check, translation of handles and documentation all follow from it. It is plain
 * data, written `as const`.
 *
 * An argument may be left out if it has a `default`, or `otherwise`, which says in words what then holds.
 */
export type Argument =
  | OperandArgument
  | ExtentArgument
  | ExtentsArgument
  | StridesArgument
  | AxisArgument
  | FactorArgument
  | UnsignedArgument
  | FlagArgument
  | KindArgument
  | ChoiceArgument
  | ElementTypeArgument
  | NodesArgument;

interface Optional {
  /** In words: the value that holds if the argument is left out. */
  readonly otherwise?: string;
  /** Not every backend takes calls that have this argument; see `supports`. */
  readonly option?: true;
}

/** Device memory. `updates`: read and written. */
export interface OperandArgument extends Optional {
  readonly role: "reads" | "writes" | "updates";
  /** The elements of the operand, in terms of other arguments, in words. */
  readonly shape: string;
  /** One number may replace the operand: `{ scalar: 2 }`. */
  readonly scalar?: true;
  /** Several operands, as a list. */
  readonly list?: true;
}

/** A whole number below 2^53: a size (`extent`), or elements from one thing to the next (`stride`). */
export interface ExtentArgument extends Optional {
  readonly role: "extent" | "stride";
  /** The smallest value allowed. Default: 0. */
  readonly least?: number;
  readonly default?: number;
}

/** A list of whole numbers: extents, or (`axes`) places in such a list, negative ones counting from the last. */
export interface ExtentsArgument extends Optional {
  readonly role: "extents" | "axes";
  /** Several shapes, as a list. An entry that is undefined has the default. */
  readonly list?: true;
  /** The number of entries. Default: any number. */
  readonly length?: 2 | 4;
  readonly least?: number;
  readonly default?: readonly number[];
}

/** Elements from one place to the next along each axis of a shape: whole numbers, negative ones and 0 too. */
export interface StridesArgument extends Optional {
  readonly role: "strides";
}

/** A place in a list of extents; negative ones count from the last. */
export interface AxisArgument extends Optional {
  readonly role: "axis";
  readonly default?: number;
}

/** A number, rounded to f32; it must be finite there. */
export interface FactorArgument extends Optional {
  readonly role: "factor";
  readonly default?: number;
  /** Several numbers, as a list. */
  readonly list?: true;
}

/** A whole number from 0 to 2^bits - 1: a number below 2^53, or a bigint. */
export interface UnsignedArgument extends Optional {
  readonly role: "unsigned";
  readonly bits: number;
  readonly default?: number;
}

export interface FlagArgument extends Optional {
  readonly role: "flag";
  readonly default: boolean;
}

/** One of several functions, by name and formula. A backend may have only some of them. */
export interface KindArgument {
  readonly role: "kind";
  readonly kinds: Readonly<Record<string, string>>;
}

export interface ChoiceArgument extends Optional {
  readonly role: "choice";
  readonly values: readonly (string | boolean)[];
  readonly default?: string | boolean;
}

export interface ElementTypeArgument extends Optional {
  readonly role: "elementType";
  /** The types that the operation is defined for. */
  readonly types: readonly DType[];
  readonly default?: DType;
  /** Several types, as a list, one for each operand of another list. */
  readonly list?: true;
}

/** The nodes of an expression: plain data, each of which may use those before it. */
export interface NodesArgument extends Optional {
  readonly role: "nodes";
}

export type ArgumentTable = Readonly<Record<string, Argument>>;

/** One number in place of an operand. It is rounded to f32, even if the data is f16. */
export interface Scalar {
  readonly scalar: number;
}

/** The arguments that callers pass, by the table of an operation. */
export type ArgumentsOf<Table extends ArgumentTable> = {
  readonly [Name in keyof Table as Exclude<Name, OptionalNames<Table>>]: ValueOf<Table[Name]>;
} & {
  readonly [Name in keyof Table as Name & OptionalNames<Table>]?: ValueOf<Table[Name]>;
};

type OptionalNames<Table> = {
  [Name in keyof Table]: Table[Name] extends { readonly default: unknown } | { readonly otherwise: string }
    ? Name
    : never;
}[keyof Table];

/** The type of an argument that is present. */
export type ValueOf<Given> = Given extends { readonly role: "reads" | "writes" | "updates" }
  ? Given extends { readonly list: true }
    ? readonly OperandOf<Given>[]
    : OperandOf<Given>
  : Given extends { readonly list: true }
    ? readonly EntryOf<Given>[]
    : SingleOf<Given>;

/** The type of an entry of a list that has no operands. */
type EntryOf<Given> = Given extends { readonly role: "extents" }
  ? readonly number[] | undefined
  : SingleOf<Given>;

type SingleOf<Given> = Given extends { readonly role: "nodes" }
  ? readonly MapNode[]
  : Given extends { readonly role: "extent" | "stride" | "axis" | "factor" }
    ? number
    : Given extends { readonly role: "unsigned" }
      ? number | bigint
      : Given extends { readonly role: "extents" | "strides" | "axes" }
        ? NumbersOf<Given>
        : Given extends { readonly role: "flag" }
          ? boolean
          : Given extends { readonly role: "kind"; readonly kinds: infer Kinds }
            ? keyof Kinds & string
            : Given extends { readonly role: "choice"; readonly values: readonly (infer Value)[] }
              ? Value
              : Given extends { readonly types: readonly (infer Type)[] }
                ? Type
                : never;

type OperandOf<Given> = Given extends { readonly scalar: true } ? Operand | Scalar : Operand;

type NumbersOf<Given> = Given extends { readonly length: 2 }
  ? readonly [number, number]
  : Given extends { readonly length: 4 }
    ? readonly [number, number, number, number]
    : readonly number[];
