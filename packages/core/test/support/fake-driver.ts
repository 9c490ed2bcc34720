import type {
  BackendDriver,
  BackendError,
  BackendProvider,
  DriverBackend,
  DriverDescription,
  DriverEvents,
  DriverKernels,
  OperationName,
  Region,
  Support,
} from "@backplane/core";
import { BackendError as CoreError, createBackend, operationNames, operations } from "@backplane/core";
import { assert } from "chai";

export interface FakeMemory {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** What `memory()` says of the pool of a driver without one. */
export const noPool = { pooledBytes: 0, poolHits: 0, poolMisses: 0 } as const;

/** One kernel call that reached a fake driver. */
export interface FakeRun {
  readonly operation: OperationName;
  readonly problem: unknown;
}

export interface FakeOptions {
  readonly name?: string;
  readonly maxAllocationBytes?: number;
  readonly kernels?: DriverKernels<FakeMemory>;
}

type FakeProblem = Readonly<Record<string, Region<FakeMemory>>> & {
  /** Of expressions. */
  readonly outputs?: readonly { readonly region: Region<FakeMemory> }[];
};

/** The first output of a problem. */
function outputOf(name: OperationName, problem: FakeProblem): Region<FakeMemory> {
  const { arguments: table, operands } = operations[name];
  const roles = table as Readonly<Record<string, { readonly role: string }>>;
  const [first] = problem.outputs ?? [];
  return first?.region ?? problem[operands.find((operand) => roles[operand]!.role !== "reads")!]!;
}

/**
 * A driver on host memory that does everything at once. Kernels only write down what they were
 * asked, and 0xee into their output, so that tests see that and when they ran.
 */
export class FakeDriver implements BackendDriver<FakeMemory> {
  readonly name: string;
  readonly kernels: DriverKernels<FakeMemory>;
  readonly maxAllocationBytes: number;
  readonly live = new Set<FakeMemory>();
  readonly runs: FakeRun[] = [];
  readonly calls: string[] = [];
  events: DriverEvents | undefined;
  opened = 0;
  closed = 0;
  isOpen = false;
  /** What `open`, `synchronize`, `read` and `close` wait for; replace to hold them up or to fail. */
  opening: () => Promise<void> = async () => {};
  synchronizing: () => Promise<void> = async () => {};
  reading: () => Promise<void> = async () => {};
  closing: () => Promise<void> = async () => {};
  allocating: (bytes: number) => void = () => {};
  #nextId = 1;

  constructor(options: FakeOptions = {}) {
    this.name = options.name ?? "fake";
    this.maxAllocationBytes = options.maxAllocationBytes ?? 2 ** 30;
    this.kernels = options.kernels ?? this.allKernels();
  }

  allKernels(): DriverKernels<FakeMemory> {
    const values: Support = {
      dtype: ["f32", "f16"],
      scaleType: ["f32", "f16"],
      bias: true,
      activation: true,
      mask: true,
      maskDtype: ["f32", "f16"],
      window: true,
      logSumExp: true,
    };
    return Object.fromEntries(
      operationNames.map((operation) => {
        const run = (problem: FakeProblem): void => {
          this.runs.push({ operation, problem });
          const { memory, byteOffset, byteLength } = outputOf(operation, problem);
          memory.bytes.fill(0xee, byteOffset, byteOffset + byteLength);
        };
        const decisive = operations[operation].decisive.map(({ argument }) => argument);
        const supports = Object.entries(values).filter(([argument]) => decisive.includes(argument));
        return [operation, { supports: [Object.fromEntries(supports)], run }];
      }),
    ) as DriverKernels<FakeMemory>;
  }

  async open(events: DriverEvents): Promise<DriverDescription> {
    this.events = events;
    this.opened++;
    await this.opening();
    this.isOpen = true;
    return {
      device: { kind: "other", name: this.name, software: false, details: {} },
      limits: { maxAllocationBytes: this.maxAllocationBytes },
      numerics: {
        nan: "kept",
        infinity: "kept",
        subnormals: "kept",
        signedZero: "kept",
        rounding: "nearest-even",
        deterministic: true,
      },
    };
  }

  async close(): Promise<void> {
    this.closed++;
    await this.closing();
    this.isOpen = false;
    this.live.clear();
  }

  async synchronize(): Promise<void> {
    this.calls.push("synchronize");
    await this.synchronizing();
  }

  alloc(bytes: number, zero: boolean): FakeMemory {
    this.calls.push(`alloc ${bytes} ${zero}`);
    this.allocating(bytes);
    const memory = { id: this.#nextId++, bytes: new Uint8Array(bytes) };
    if (!zero) memory.bytes.fill(0xaa);
    this.live.add(memory);
    return memory;
  }

  free(memory: FakeMemory): void {
    this.calls.push(`free ${memory.bytes.length}`);
    assert.isTrue(this.live.delete(memory), "a driver is never asked to free twice");
  }

  write(destination: FakeMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    this.calls.push(`write ${byteOffset} ${source.length}`);
    destination.bytes.set(source, byteOffset);
  }

  async read(
    destination: Uint8Array<ArrayBufferLike>,
    source: FakeMemory,
    byteOffset: number,
  ): Promise<void> {
    this.calls.push(`read ${byteOffset} ${destination.length}`);
    const bytes = source.bytes.slice(byteOffset, byteOffset + destination.length);
    await this.reading();
    destination.set(bytes);
  }

  copy(destination: Region<FakeMemory>, source: Region<FakeMemory>): void {
    this.calls.push(`copy ${destination.byteOffset} ${source.byteOffset} ${source.byteLength}`);
    const { byteOffset, byteLength } = source;
    const bytes = source.memory.bytes.slice(byteOffset, byteOffset + byteLength);
    destination.memory.bytes.set(bytes, destination.byteOffset);
  }

  fill(destination: Region<FakeMemory>, pattern: number): void {
    const { memory, byteOffset, byteLength } = destination;
    this.calls.push(`fill ${byteOffset} ${byteLength} ${pattern.toString(16)}`);
    for (let i = byteOffset; i < byteOffset + byteLength; i++)
      memory.bytes[i] = (pattern >>> (8 * (i % 4))) & 0xff;
  }

  reservedBytes(): number {
    let bytes = 0;
    for (const memory of this.live) bytes += memory.bytes.length;
    return bytes;
  }

  native(memory?: FakeMemory): unknown {
    return memory ?? this;
  }
}

/** A backend on a fake driver, initialised. */
export async function openFake(
  options: FakeOptions = {},
): Promise<{ driver: FakeDriver; backend: DriverBackend<FakeMemory> }> {
  const driver = new FakeDriver(options);
  const backend = createBackend(driver);
  await backend.init();
  return { driver, backend };
}

/** A provider that keeps the drivers it made, newest last. */
export interface FakeProvider extends BackendProvider {
  readonly drivers: FakeDriver[];
}

export function fakeProvider(name: string, prepare: (driver: FakeDriver) => void = () => {}): FakeProvider {
  const drivers: FakeDriver[] = [];
  return {
    name,
    drivers,
    probe: async () => ({
      available: true,
      device: { kind: "other", name, software: false, details: {} },
    }),
    create: () => {
      const driver = new FakeDriver({ name });
      prepare(driver);
      drivers.push(driver);
      return createBackend(driver);
    },
  };
}

/** A promise that the test settles. */
export interface Gate {
  readonly promise: Promise<void>;
  open(): void;
  fail(error: unknown): void;
}

export function gate(): Gate {
  let open: () => void = () => {};
  let fail: (error: unknown) => void = () => {};
  const promise = new Promise<void>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { promise, open, fail };
}

/** Lets everything run that does not wait for a timer or for input. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Checks that the call throws a `BackendError` with this code, and answers with it. */
export function throws(code: string, call: () => unknown, argument?: string): BackendError {
  let result: unknown;
  try {
    result = call();
  } catch (error) {
    return checkError(error, code, argument);
  }
  assert.fail(`expected ${code}, but the call returned ${String(result)}`);
}

/** Checks that the promise rejects with a `BackendError` with this code, and answers with it. */
export async function rejects(
  code: string,
  promise: Promise<unknown>,
  argument?: string,
): Promise<BackendError> {
  let result: unknown;
  try {
    result = await promise;
  } catch (error) {
    return checkError(error, code, argument);
  }
  assert.fail(`expected ${code}, but the promise resolved to ${String(result)}`);
}

function checkError(error: unknown, code: string, argument: string | undefined): BackendError {
  assert.instanceOf(error, CoreError, `expected ${code}: ${String(error)}`);
  const backendError = error as BackendError;
  assert.equal(backendError.code, code, backendError.message);
  if (argument !== undefined) assert.equal(backendError.argument, argument, backendError.message);
  return backendError;
}
