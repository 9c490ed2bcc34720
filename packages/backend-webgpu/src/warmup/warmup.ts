import {
  type BackendDriver,
  type ComputeBackend,
  createBackendOf,
  type DeviceHandle,
  type DriverBackend,
  type DriverDescription,
  type DriverKernels,
  type Kernel,
  type KnownOperations,
  type Operation,
  type OperationName,
  type OperationProblems,
  type OwnKernel,
  operationNames,
  type Recording,
  type Region,
  type Vary,
} from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import {
  boundKernels,
  type ForcedVariants,
  type KernelSet,
  type OwnProgram,
  ownKernel,
  type RecordOperation,
} from "../kernels/index.js";
import type { Program } from "../program/index.js";
import {
  DeviceMemory,
  type Layout,
  PARAMETER_BLOCK_BYTES,
  ParameterBlock,
  Recorder,
  type RecordingMeans,
  roundedCapacity,
  writeEdges,
} from "../runtime/index.js";

export type ProblemListener = (
  operation: OperationName,
  problem: OperationProblems<DeviceMemory>[OperationName],
) => void;

/** What a backend computes with. */
export interface PlanMeans {
  readonly features: DeviceFeatures;
  readonly kernels: KernelSet;
  readonly variants: ForcedVariants;
  readonly own: readonly OwnProgram[];
}

/**
 * A driver that computes nothing and collects the programs that its calls need. The calls go through the same
 * kernels and the same recorder as on a device, so the programs are the same.
 */
export class PlanDriver implements BackendDriver<DeviceMemory> {
  readonly name = "webgpu";
  readonly kernels: DriverKernels<DeviceMemory>;
  readonly ownKernels: readonly OwnKernel[];
  readonly programs: Set<Program> = new Set();
  readonly #description: DriverDescription;
  readonly #recorder: Recorder;

  /** `onProblem` hears of each problem that a kernel has recorded. */
  constructor(
    { features, kernels: set, variants, own }: PlanMeans,
    description: DriverDescription,
    onProblem?: ProblemListener,
  ) {
    this.#description = description;
    const { queue, pool, pipelines } = takingNote(this.programs);
    const recorder = new Recorder(features, queue, pool, pipelines);
    this.#recorder = recorder;
    const record: RecordOperation = (operation, enqueue) => recorder.run(operation, enqueue);
    const kernels = boundKernels(set, variants, record);
    this.ownKernels = own.map((one) => ownKernel(one, record));
    this.kernels = onProblem === undefined ? kernels : announced(kernels, onProblem);
  }

  async open(): Promise<DriverDescription> {
    return this.#description;
  }

  async close(): Promise<void> {}
  async synchronize(): Promise<void> {}

  alloc(bytes: number, zero: boolean): DeviceMemory {
    const memory = blank(bytes);
    // On a device it is stale if the memory had another owner before.
    memory.stale = zero;
    return memory;
  }

  free(): void {}

  write(destination: DeviceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    this.#record((recorder) => {
      destination.overwrite(byteOffset, source.byteLength);
      recorder.touch(destination);
      writeEdges(recorder, { memory: destination, byteOffset, byteLength: source.byteLength }, source);
    });
  }

  /** There is nothing to read: the destination keeps its contents. */
  async read(_: Uint8Array<ArrayBufferLike>, source: DeviceMemory): Promise<void> {
    this.#record((recorder) => recorder.touch(source));
  }

  copy(destination: Region<DeviceMemory>, source: Region<DeviceMemory>): void {
    this.#record((recorder) => recorder.copy(destination, source));
  }

  fill(destination: Region<DeviceMemory>, pattern: number): void {
    this.#record((recorder) => recorder.fill(destination, pattern));
  }

  reservedBytes(): number {
    return 0;
  }

  native(): undefined {}

  /** Inside `run`, which takes scratch back. */
  #record(enqueue: (recorder: Recorder) => void): void {
    this.#recorder.run("warmup", () => enqueue(this.#recorder));
  }
}

/** The same kernels, which report each problem when it is done. */
function announced(
  kernels: DriverKernels<DeviceMemory>,
  onProblem: ProblemListener,
): DriverKernels<DeviceMemory> {
  const entries = Object.entries(kernels) as [OperationName, Kernel<never>][];
  return Object.fromEntries(
    entries.map(([operation, kernel]) => [
      operation,
      {
        ...kernel,
        run(problem: never) {
          kernel.run(problem);
          onProblem(operation, problem);
        },
      },
    ]),
  );
}

/** Returns memory whose contents nobody reads. */
function blank(bytes: number): DeviceMemory {
  const memory = new DeviceMemory({} as GPUBuffer, roundedCapacity(bytes), 0);
  memory.bytes = bytes;
  return memory;
}

function twin({ bytes, stale }: DeviceMemory): DeviceMemory {
  return Object.assign(blank(bytes), { stale });
}

/** Records nothing. */
function takingNote(programs: Set<Program>): RecordingMeans {
  const group = {} as GPUBindGroup;
  const pipeline = {} as GPUComputePipeline;
  const layout: Layout = {
    ...{ id: 0, buffers: {} as GPUBindGroupLayout, pipeline: {} as GPUPipelineLayout },
    space: "uniform",
  };
  return {
    queue: { batch: 0, parameters: new ParameterBlock(PARAMETER_BLOCK_BYTES), reserve() {}, dispatch() {} },
    pool: { scratch: blank, release() {} },
    pipelines: {
      get(program) {
        programs.add(program);
        const parameterWords = program.parameterBytes / 4;
        return { program, pipeline, compiling: undefined, layout, parameterWords };
      },
      bindGroup: () => group,
    },
  };
}

/** Runs `plan` on `driver`. The plan may use handles of `real` beside those that it makes. */
export async function rehearse(
  driver: PlanDriver,
  real: DriverBackend<DeviceMemory>,
  known: KnownOperations,
  plan: (backend: ComputeBackend) => unknown,
): Promise<void> {
  const rehearsal = createBackendOf(driver, known);
  await rehearsal.init();
  try {
    await plan(withHandlesOf(real, rehearsal, known));
  } finally {
    await rehearsal.dispose();
  }
}

/** The positions of operands in the methods that are not operations. */
const operandPositions = {
  ...{ free: [0], native: [0], copyHtoD: [0], copyDtoH: [1], copyDtoD: [0, 1], fill: [0] },
} as const;

/** Makes the calls at once, and again for other values: the programs are what matters. */
function rehearsedRecording<Values extends object>(
  body: (vary: Vary<Values>) => void,
  values: Values = {} as Values,
): Recording<Values> {
  const make = (changed?: Partial<Values>) => body((part) => part({ ...values, ...changed }));
  make();
  return {
    run(changes) {
      if (changes?.values !== undefined) make(changes.values);
    },
    dispose() {},
    [Symbol.dispose]() {},
  };
}

/** The rehearsal, with live handles of `real` standing for allocations of the same size. */
function withHandlesOf(
  real: DriverBackend<DeviceMemory>,
  rehearsal: DriverBackend<DeviceMemory>,
  { operations }: KnownOperations,
): ComputeBackend {
  const standIns = new Map<DeviceHandle, DeviceHandle>();
  const handleIn = (handle: DeviceHandle): DeviceHandle => {
    const known = standIns.get(handle);
    if (known !== undefined) return known;
    let memory: DeviceMemory | undefined;
    try {
      memory = real.memoryOf(handle, "warmup", "handle");
    } catch {
      // A handle of the rehearsal, or of nobody: it is the rehearsal that knows.
      return handle;
    }
    const standIn = memory === undefined ? rehearsal.alloc(0) : rehearsal.adopt(twin(memory), memory.bytes);
    standIns.set(handle, standIn);
    return standIn;
  };
  const translated = (operand: unknown): unknown => {
    if (typeof operand === "number") return handleIn(operand as DeviceHandle);
    if (Array.isArray(operand)) return operand.map(translated);
    if (typeof operand !== "object" || operand === null || !("handle" in operand)) return operand;
    return { ...operand, handle: handleIn(operand.handle as DeviceHandle) };
  };
  const run = (given: OperationName | Operation, args: Readonly<Record<string, unknown>>): void => {
    const operation = (typeof given === "string" ? operations[given] : given) as Operation | undefined;
    const operands = operation?.operands.filter((argument) => args?.[argument] !== undefined) ?? [];
    const own = Object.fromEntries(operands.map((argument) => [argument, translated(args[argument])]));
    rehearsal.run(given as Operation, { ...args, ...own });
  };
  const members = new Map<PropertyKey, unknown>([["run", run]]);
  for (const name of operationNames)
    members.set(name, (args: Readonly<Record<string, unknown>>) => run(name, args));
  for (const [name, positions] of Object.entries(operandPositions)) {
    const method = rehearsal[name as keyof typeof operandPositions] as (...args: unknown[]) => unknown;
    const isOperand = (i: number): boolean => (positions as readonly number[]).includes(i);
    members.set(name, (...args: unknown[]) =>
      method.apply(
        rehearsal,
        args.map((value, i) => (isOperand(i) ? translated(value) : value)),
      ),
    );
  }
  members.set("record", rehearsedRecording);
  return new Proxy(rehearsal, {
    get(target, key): unknown {
      if (members.has(key)) return members.get(key);
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
