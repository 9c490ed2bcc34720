import type { Region, Support } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import type { Program } from "../program/index.js";
import type { DeviceMemory } from "./memory.js";

/** Part of a GPU buffer. All buffers are whole multiples of 16 bytes long, so vec4 views reach their end. */
export type BufferRegion = Region<DeviceMemory>;

/**
 * The workgroups to run: a count, or an exact grid. The runtime folds a count above 65,535 into two
 * dimensions. Kernels find their place with `workgroup_index()` of `wgsl.ts` and must check it against a
 * bound, because folding may start up to one row too many.
 */
export type Workgroups = number | readonly [x: number, y: number, z: number];

export type ParameterValues<Name extends string> = Readonly<Record<Name, number | readonly number[]>>;

/** The means by which kernels enqueue work. Everything takes effect in order. */
export interface KernelContext {
  readonly features: DeviceFeatures;

  /**
   * Enqueues one dispatch. Binds each buffer whole, or a window of it if the buffer is larger than a binding may
   * be; a region must fit into one window. The shader finds the region's place inside the binding in
   * `parameters.<name>_offset` (see `program`).
   *
   * WebGPU refuses one buffer as both read-only and writable in a dispatch. So an input that lies in
   * the same buffer as an output is first copied to scratch (keeping its place modulo 16 bytes). An
   * input that overlaps an output is an error in the kernel: in-place needs a variant that binds the
   * buffer once, as `read_write`.
   */
  dispatch<Binding extends string, Parameter extends string>(
    program: Program<Binding, Parameter>,
    regions: Readonly<Record<Binding, BufferRegion>>,
    parameters: ParameterValues<Parameter>,
    workgroups: Workgroups,
  ): void;

  /** `bytes` of memory that lasts until the current problem has run. Contents unspecified. 16-byte aligned. */
  scratch(bytes: number): BufferRegion;
  /** Copies any bytes; the regions do not overlap. */
  copy(destination: BufferRegion, source: BufferRegion): void;
  /** As `BackendDriver.fill`. */
  fill(destination: BufferRegion, pattern: number): void;
}

/** The means of operations that may run kernels several times. */
export interface OperationContext extends KernelContext {
  /** Runs something whose scratch is not needed after it. */
  scoped(enqueue: (context: OperationContext) => void): void;
}

/** The calls that a kernel takes, and the kernel. */
export interface KernelDefinition<Problem, Context = KernelContext> {
  readonly supports: readonly Support[];
  run(context: Context, problem: Problem): void;
}
