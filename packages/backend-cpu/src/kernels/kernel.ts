/**
 * Writing and starting kernels.
 *
 * A kernel is a WebAssembly function over the device memory. It computes one chunk of a command. It is called
 * once for each chunk, in any order, by any worker, at the same time as others. So chunks must write to
 * different places, and the result of a chunk may depend only on its number, never on the worker; results are
 * then the same for any number of threads. Commands follow one another: all chunks of one have finished before
 * the first of the next starts.
 *
 * `defineKernel` declares a kernel: its name, the layout of its parameter block, and a function that emits its
 * body. `kernel.launch(parameters, chunks)`, enqueued by a plan, starts it.
 *
 * A complete example to copy (memory/memory.ts is a real one):
 *
 *     const chunkElements = 1 << 14;
 *
 *     // output[i] = factor * input[i]
 *     const scaleKernel = defineKernel({
 *       name: "scale_f32",
 *       parameters: { input: "i32", output: "i32", count: "i32", factor: "f32" },
 *       emit(f, { parameters, chunk }) {
 *         const { input, output, count, factor } = parameters;
 *         const i = f.let(i32.mul(chunk, chunkElements));
 *         const end = f.let(i32.minU(i32.add(i, chunkElements), count));
 *         const factors = f.let(f32x4.splat(factor)); // before the loop: evaluated once
 *         const vectorEnd = f.let(i32.and(end, -4)); // chunkElements is a multiple of 4
 *         f.forLocal(i, vectorEnd, () => {
 *           const at = f.let(i32.shl(i, 2));
 *           f.store(i32.add(output, at), f32x4.mul(factors, v128.load(i32.add(input, at))));
 *         }, { step: 4 });
 *         f.forLocal(i, end, () => {
 *           const at = f.let(i32.shl(i, 2));
 *           f.store(i32.add(output, at), f32.mul(factor, f32.load(i32.add(input, at))));
 *         });
 *       },
 *     });
 *
 *     export const scale: CpuOperation<ScaleProblem> = {
 *       supports: [{ dtype: ["f32"] }],
 *       kernels: [scaleKernel],
 *       plan: (problem) => [
 *         scaleKernel.launch(
 *           {
 *             input: address(problem.input),
 *             output: address(problem.output),
 *             count: problem.n,
 *             factor: problem.factor,
 *           },
 *           Math.ceil(problem.n / chunkElements),
 *         ),
 *       ],
 *     };
 *
 * An operation lives in kernels/<operation>/, whose index.ts exports a `CpuOperation` named `<operation>`. The
 * table in kernels/list.ts lists them all, and the driver takes everything from there. What several operations
 * use has a folder of its own; a folder is entered through its index.ts only. Tests run single kernels with
 * test/workbench.ts.
 *
 * `f.multiplyAdd`, `f.multiplySubtract` and `f.choose` are the relaxed instructions if the engine has them. These
 * are faster, and the first two round once instead of twice.
 *
 * Addresses and byte counts are unsigned 32-bit numbers. Kernels may read up to `readSlackBytes` past the end of
 * an operand (never before its start), so that the last vector needs no care. They must not write there.
 */
import type {
  Accuracy,
  GemmProblem,
  Operation,
  Region,
  Support,
  TransformedConvolutions,
} from "@backplane/core";
import type { BlasOutcome } from "../native/find-blas.js";
import type { KernelFunction } from "../native/functions.js";
import { type FunctionBuilder, f32, i32, type Local, type ModuleBuilder } from "../wasm/index.js";

/** The memory behind a handle: a place in the device memory. */
export interface CpuMemory {
  /** Address of the first byte, a multiple of 64. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Returns the address of a region in the device memory; 0 if it is empty, for its memory may then be undefined. */
export function address({ memory, byteOffset, byteLength }: Region<CpuMemory>): number {
  return byteLength === 0 ? 0 : memory.byteOffset + byteOffset;
}

/** Readable bytes after the end of every allocation, for vector loads that reach past the data. */
export const readSlackBytes = 64;

/** The features of this engine beyond the required ones (SIMD). */
export interface Features {
  /** Fused multiply-add instructions, `f32x4.relaxedMadd`. */
  readonly relaxedSimd: boolean;
  /**
   * The engine keeps only some vectors in registers: tiles of sums then have four rows instead of six.
   * Default: false.
   */
  readonly fewRegisters?: boolean;
  /** A native library with BLAS has been found. Default false. */
  readonly blas?: boolean;
}

export type ParameterTypes = Readonly<Record<string, "i32" | "f32">>;

export type ParameterLocals<Types extends ParameterTypes> = {
  readonly [Name in keyof Types]: Local<Types[Name]>;
};

/** The tools of a kernel's emitted body. */
export interface KernelContext<Types extends ParameterTypes> {
  /** The parameter block, already read into locals. */
  readonly parameters: ParameterLocals<Types>;
  /** Which chunk to work off, from 0. */
  readonly chunk: Local<"i32">;
  /** Address of `scratchBytes` bytes that no other worker uses; garbage at first. 64-byte aligned. */
  readonly scratch: Local<"i32">;
  /** Which worker this is, from 0 to `workers - 1`, for parts of a workspace. */
  readonly worker: Local<"i32">;
  readonly features: Features;
  /** For functions to call: `module.shared(label, build)`. */
  readonly module: ModuleBuilder;
}

export interface KernelDefinition<Types extends ParameterTypes> {
  /** Export name, built from the choices made, such as `gemm_f32_6x8_fma`. */
  readonly name: string;
  /** Names and types of the parameters; i32 also for addresses. At most `maxParameters`. */
  readonly parameters: Types;
  /** Scratch for each worker. Default 0. For sizes that depend on the problem see `workspace`. */
  readonly scratchBytes?: number;
  /** The kernel is left out of the module if the engine lacks this. */
  readonly requires?: keyof Features;
  emit(f: FunctionBuilder, context: KernelContext<Types>): void;
}

/** One command for the queue: call `kernel` for each chunk from 0 to `chunks - 1`. */
export interface Launch {
  readonly kernel: string;
  /** The parameter block: 32-bit patterns, signed or not. */
  readonly words: readonly number[];
  readonly chunks: number;
  /** The number of workers that gain by taking part, up to `chunks`; 0 if one worker should do all chunks by itself. */
  readonly helpers: number;
  /** Roughly its time on one worker. Default: large. */
  readonly nanoseconds?: number;
}

/**
 * Nanoseconds of work for which one more worker is worth waking: below, waking it takes longer than
 * it saves (docs/decisions/0006-start-up.md has the figures).
 */
const helperNanoseconds = 20_000;

/** With less work, workers that are awake anyway do not take chunks from one another either: to claim each takes 100 ns and more. */
const sharedNanoseconds = 5000;

/** Returns how many workers pay off for a command with this many chunks of this much work: 0 if it is for one by itself. */
export function helpersFor(chunks: number, nanoseconds: number): number {
  if (chunks <= 1 || nanoseconds < sharedNanoseconds) return 0;
  return Math.max(1, Math.min(chunks, Math.floor(nanoseconds / helperNanoseconds)));
}

export interface Kernel<Types extends ParameterTypes = ParameterTypes> {
  readonly name: string;
  readonly scratchBytes: number;
  readonly requires: keyof Features | undefined;
  /** Adds the function to a module. */
  emit(module: ModuleBuilder, features: Features): void;
  /**
   * Returns one command. `nanoseconds` is roughly its time on one worker; give it if the command may be too
   * small to share. Default: large.
   */
  launch(
    parameters: { readonly [Name in keyof Types]: number },
    chunks: number,
    nanoseconds?: number,
  ): Launch;
  /** The same with the parameters in the order in which they are declared. The list must not change afterwards. */
  launchList(parameters: readonly number[], chunks: number, nanoseconds?: number): Launch;
}

/** A kernel with any parameters, for lists. */
export type AnyKernel = Omit<Kernel, "launch" | "launchList">;

/**
 * Kernels that become one module, when one of them is first used: a kernel alone, or several that call
 * the same functions, which would otherwise be emitted and compiled for each.
 */
export type KernelGroup = AnyKernel | readonly AnyKernel[];

/** Which problems a native library computes: none, those for which it is faster, or all that it can. */
export type BlasUse = "never" | "where faster" | "where possible";

/** Products of matrices by a native library. */
export interface NativeProducts {
  /** Whether the library computes a problem; k is not 0. */
  computes(problem: GemmProblem<CpuMemory>, use: BlasUse): boolean;
  /** In one command. */
  plan(problem: GemmProblem<CpuMemory>, context: PlanContext): Launch;
}

/** The tools of a plan. */
export interface PlanContext {
  readonly features: Features;
  /** Undefined: this backend can have no native library. */
  readonly nativeProducts?: NativeProducts | undefined;
  /** Variants that `init` has settled on, by operation. Default: the first that fits. */
  readonly variants?: Readonly<Record<string, string>>;
  /** The option of that name. Default: never. */
  readonly transformedConvolutions?: TransformedConvolutions;
  /** Workers that run chunks at the same time; at least 1. */
  readonly workers: number;
  /**
   * Address of `bytes` of memory (64-byte aligned, garbage at first) that is this plan's own from
   * its first launch to its last. Throws `OUT_OF_MEMORY`.
   */
  workspace(bytes: number): number;
  /**
   * Makes sure that there is a kernel of this name, for launches of this plan: `make` is called if there is none yet, and
   * emits a function called `lateExport` with the parameters of kernels.
   */
  late(name: string, make: (module: ModuleBuilder, features: Features) => void): void;
}

/** How this backend does one operation: what the index.ts of its folder exports. */
export interface CpuOperation<Problem> {
  /** The calls that it takes. */
  readonly supports: readonly Support[];
  /** Every kernel that its plans start. */
  readonly kernels: readonly KernelGroup[];
  /** Turns a problem into commands, to be executed one after the other. */
  plan(problem: Problem, context: PlanContext): readonly Launch[];
  /** Its part of `capabilities.accuracy`. Default: it has none. */
  readonly accuracy?: Accuracy[keyof Accuracy];
  /** Default: there is one way of doing it. */
  readonly variants?: OperationVariants<Problem>;
}

/** The ways of doing an operation among which a device chooses. */
export interface OperationVariants<Problem> {
  /** The names that `CpuOptions.variants` accepts. */
  readonly names: readonly string[];
  /** Returns the operation with only those kernels among which features and a forced name leave a choice. */
  limited(features: Features, forced: string | undefined): CpuOperation<Problem>;
  /** Returns what is known before the device is open. Throws `UNSUPPORTED` if the forced variant cannot run. */
  expect(features: Features, forced: string | undefined, blas: BlasOutcome): ExpectedVariant;
  /** Chooses one, while the device is opened. */
  settle(tools: VariantTools): Promise<SettledVariant>;
}

export interface ExpectedVariant {
  /** Some of its problems go to the native library. */
  readonly usesBlas: boolean;
  /** For `capabilities.device.details`. */
  readonly details: Readonly<Record<string, string>>;
}

export interface VariantTools {
  readonly features: Features;
  readonly forced: string | undefined;
  /** Compiles the kernel of this name, and returns it on a memory of one page. */
  make(kernel: string): KernelFunction;
}

export interface SettledVariant {
  readonly name: string;
  /** For `capabilities.device.details`. */
  readonly details: Readonly<Record<string, string>>;
}

/** A kernel for an operation that somebody else than core has defined. */
export interface OwnCpuKernel<Problem = never> extends Omit<CpuOperation<Problem>, "accuracy" | "variants"> {
  readonly operation: Operation;
}

/** Words of a parameter block. */
export const maxParameters = 56;

const bits = new DataView(new ArrayBuffer(4));

/** The 32-bit pattern of a parameter, signed. */
export function wordOf(type: "i32" | "f32", value: number): number {
  if (type === "i32") return value | 0;
  bits.setFloat32(0, value);
  return bits.getInt32(0);
}

/**
 * Makes the launches of a kernel with these parameters. Kernels get theirs from `defineKernel`; this is
 * for functions that are no WebAssembly.
 */
export function launchers<const Types extends ParameterTypes>(
  name: string,
  types: Types,
): Pick<Kernel<Types>, "launch" | "launchList"> {
  const keys = Object.keys(types);
  /** The places of those parameters that are not words yet. Words are cut to 32 bits where they are written. */
  const floats = keys.flatMap((key, i) => (types[key] === "f32" ? [i] : []));
  if (keys.length > maxParameters)
    throw new RangeError(`kernel ${name} has ${keys.length} parameters; allowed: ${maxParameters}`);
  // Loops that make nothing but the list: `map` and pairs of key and type left three times as much garbage per call.
  return {
    launch(values, chunks, nanoseconds = Number.POSITIVE_INFINITY) {
      const words = new Array<number>(keys.length);
      // Engines have the names of an object at hand in their order, with the places of their values: where that is the order
      // of the declaration, nothing need be looked up by name.
      let inOrder = 0;
      for (const key in values) {
        if (key !== keys[inOrder]) break;
        words[inOrder++] = values[key]!;
      }
      for (let i = inOrder; i < keys.length; i++) words[i] = values[keys[i]!]!;
      for (let i = 0; i < floats.length; i++) words[floats[i]!] = wordOf("f32", words[floats[i]!]!);
      return { kernel: name, words, chunks, helpers: helpersFor(chunks, nanoseconds), nanoseconds };
    },

    launchList(values, chunks, nanoseconds = Number.POSITIVE_INFINITY) {
      if (values.length !== keys.length)
        throw new RangeError(`kernel ${name} takes ${keys.length} parameters, not ${values.length}`);
      if (floats.length === 0)
        return { kernel: name, words: values, chunks, helpers: helpersFor(chunks, nanoseconds), nanoseconds };
      const words = values.slice();
      for (let i = 0; i < floats.length; i++) words[floats[i]!] = wordOf("f32", words[floats[i]!]!);
      return { kernel: name, words, chunks, helpers: helpersFor(chunks, nanoseconds), nanoseconds };
    },
  };
}

export function defineKernel<const Types extends ParameterTypes>(
  definition: KernelDefinition<Types>,
): Kernel<Types> {
  const { name, scratchBytes = 0, requires } = definition;
  const parameters = Object.entries(definition.parameters);

  return {
    name,
    scratchBytes,
    requires,
    ...launchers(name, definition.parameters),

    emit(module, features) {
      module.function(
        name,
        { block: "i32", chunk: "i32", scratch: "i32", worker: "i32" },
        (f, { block, chunk, scratch, worker }) => {
          const locals = parameters.map(([key, type], i) => [
            key,
            type === "i32" ? f.let(i32.load(block, 4 * i)) : f.let(f32.load(block, 4 * i)),
          ]);
          const context = { chunk, scratch, worker, features, module };
          definition.emit(f, {
            ...context,
            parameters: Object.fromEntries(locals) as ParameterLocals<Types>,
          });
        },
        { export: true },
      );
    },
  };
}
