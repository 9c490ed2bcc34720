import type { Family } from "../launch.js";
import type { ReductionKind } from "../link.js";
import type { NativeLibrary } from "./koffi.js";

/** A handle of MPI as koffi passes it: an address in Open MPI, a number in MPICH. */
export type MpiHandle = bigint | number;

/** Element types, by the typed arrays that have them. */
export type MpiType = "Uint8Array" | "Int32Array" | "Float32Array" | "Float64Array";

/**
 * The binary interface of a family of libraries: how handles are passed, and the values of what C programs get from
 * `mpi.h`. Functions have the same names and arguments everywhere.
 */
export interface MpiInterface {
  readonly family: Family;
  /** The type of a handle, for koffi. */
  readonly handle: "void *" | "int";
  readonly world: MpiHandle;
  readonly errorsReturn: MpiHandle;
  /** In place of an input that is the output. */
  readonly inPlace: bigint;
  /** The color of ranks without a group. */
  readonly undefinedColor: number;
  readonly types: Readonly<Record<MpiType, MpiHandle>>;
  readonly kinds: Readonly<Record<ReductionKind, MpiHandle>>;
  /** Reads a handle that a function has written to 8 bytes. */
  read(bytes: BigInt64Array): MpiHandle;
}

/** Handles are addresses of objects in the library (Open MPI's mpi.h). */
function openMpi(library: NativeLibrary): MpiInterface {
  const at = (name: string): bigint => library.symbol(`ompi_mpi_${name}`);
  return {
    family: "Open MPI",
    handle: "void *",
    world: at("comm_world"),
    errorsReturn: at("errors_return"),
    inPlace: 1n,
    undefinedColor: -32766,
    types: {
      Uint8Array: at("byte"),
      Int32Array: at("int"),
      Float32Array: at("float"),
      Float64Array: at("double"),
    },
    kinds: { sum: at("op_sum"), max: at("op_max"), min: at("op_min") },
    read: (bytes) => bytes[0]!,
  };
}

/** Handles are numbers, the same in all versions and in the libraries of the MPICH ABI Compatibility Initiative. */
function mpich(): MpiInterface {
  return {
    family: "MPICH",
    handle: "int",
    world: 0x44000000,
    errorsReturn: 0x54000001,
    inPlace: -1n,
    undefinedColor: -32766,
    types: {
      Uint8Array: 0x4c00010d,
      Int32Array: 0x4c000405,
      Float32Array: 0x4c00040a,
      Float64Array: 0x4c00080b,
    },
    kinds: { sum: 0x58000003, max: 0x58000001, min: 0x58000002 },
    read: (bytes) => new Int32Array(bytes.buffer)[0]!,
  };
}

/** What libraries with the interface of MPICH say of themselves. */
const ofMpich = /^(MPICH|Intel\(R\) MPI|MVAPICH|CRAY MPICH)/i;

/**
 * Returns the family that a library belongs to by its own description (`MPI_Get_library_version`); undefined if its binary
 * interface is not known here.
 */
export function familyOf(description: string): Family | undefined {
  if (/^Open MPI v[1-9]/.test(description)) return "Open MPI";
  return ofMpich.test(description) ? "MPICH" : undefined;
}

export function interfaceOf(family: Family, library: NativeLibrary): MpiInterface {
  return { "Open MPI": openMpi, MPICH: mpich }[family](library);
}
