import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";

/**
 * What one argument of an operation is. A table of these, one for each argument, is the only place where the
 * argument stands: its type, unknown names, defaults, checks, the translation of handles and the documents
 * follow from it. It is plain data, written `as const`.
 *
 * An argument may be left out if it has a `default`, or `otherwise`, which says in words what holds then.
 */
export type Argument =
  | OperandArgument
  | ExtentArgument
  | ExtentsArgument
  | FactorArgument
  | FlagArgument
  | KindArgument
  | ChoiceArgument
  | ElementTypeArgument;

interface Optional {
  /** What holds if the argument is left out, in words. */
  readonly otherwise?: string;
  /** A call that has this argument asks for an option that not every backend has; see `supports`. */
  readonly option?: string;
}

/** Device memory. `updates`: read and written. */
export interface OperandArgument extends Optional {
  readonly role: "reads" | "writes" | "updates";
  /** The elements there, in terms of other arguments, in words. */
  readonly shape: string;
  /** One number may stand there instead: `{ scalar: 2 }`. */
  readonly scalar?: true;
  /** Several operands, as a list. */
  readonly list?: true;
}

/** A whole number below 2^53: a size (`extent`), or elements from one thing to the next (`stride`). */
export interface ExtentArgument extends Optional {
  readonly role: "extent" | "stride";
  /** The smallest one allowed. Default 0. */
  readonly least?: number;
  readonly default?: number;
}

/** A list of whole numbers: extents, or (`axes`) places in such a list, negative ones counting from the last. */
export interface ExtentsArgument extends Optional {
  readonly role: "extents" | "axes";
  /** How many. Default: any number. */
  readonly length?: 2 | 4;
  readonly least?: number;
  readonly default?: readonly number[];
}

/** A number that is finite in f32, to which it is rounded. */
export interface FactorArgument extends Optional {
  readonly role: "factor";
  readonly default?: number;
}

export interface FlagArgument extends Optional {
  readonly role: "flag";
  readonly default: boolean;
}

/** Which of several functions: name and formula. A backend may have some of them only. */
export interface KindArgument {
  readonly role: "kind";
  readonly kinds: Readonly<Record<string, string>>;
}

export interface ChoiceArgument extends Optional {
  readonly role: "choice";
  readonly values: readonly (string | boolean)[];
  readonly default?: string | boolean;
}

export interface ElementTypeArgument {
  readonly role: "elementType";
  readonly default: DType;
}

export type ArgumentTable = Readonly<Record<string, Argument>>;

/** One number in place of an operand; it is rounded to f32, also where the data are f16. */
export interface Scalar {
  readonly scalar: number;
}

/** What callers pass, as the table of an operation has it. */
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

/** The type of an argument that is given. */
export type ValueOf<Given> = Given extends { readonly role: "reads" | "writes" | "updates" }
  ? Given extends { readonly list: true }
    ? readonly OperandOf<Given>[]
    : OperandOf<Given>
  : Given extends { readonly role: "extent" | "stride" | "factor" }
    ? number
    : Given extends { readonly role: "extents" | "axes" }
      ? NumbersOf<Given>
      : Given extends { readonly role: "flag" }
        ? boolean
        : Given extends { readonly role: "kind"; readonly kinds: infer Kinds }
          ? keyof Kinds & string
          : Given extends { readonly role: "choice"; readonly values: readonly (infer Value)[] }
            ? Value
            : DType;

type OperandOf<Given> = Given extends { readonly scalar: true } ? Operand | Scalar : Operand;

type NumbersOf<Given> = Given extends { readonly length: 2 }
  ? readonly [number, number]
  : Given extends { readonly length: 4 }
    ? readonly [number, number, number, number]
    : readonly number[];
