import {
  type Capabilities,
  type ComputeBackend,
  type DType,
  dtypes,
  type Numerics,
  type OperationName,
  operationNames,
  operations,
  type Question,
} from "@backplane/core";
import { breathe } from "./breath.js";
import { forAll, forEach, type SearchOptions, Unfinished } from "./check.js";
import { type Law, type LawContext, LawFailure, lawId } from "./law.js";
import { type Measurements, Recorder } from "./measurements.js";
import { kindsOf, testedOperations } from "./ops/index.js";
import type { Plan } from "./options.js";
import { Hung, settled, settledAsWhole, withPatience } from "./patience.js";
import { backendMadeBy, type Subject } from "./subjects.js";

/** Properties that a backend declares, for reports. */
export interface BackendFacts {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly supports: readonly Support[];
}

export interface Support {
  readonly operation: OperationName;
  readonly dtype: DType;
  readonly supported: boolean;
  /** For operations with kinds: the kinds that the backend has and lacks. */
  readonly kinds: { readonly supported: readonly string[]; readonly missing: readonly string[] } | undefined;
}

/**
 * `kept`: no case broke it. `broken`: a case broke it. `skipped`: it does not bind this backend, given its
 * declarations. `unfinished`: no case broke it, but not all were tried.
 */
export type LawStatus = "kept" | "broken" | "skipped" | "unfinished";

export interface LawResult {
  readonly law: Law;
  readonly status: LawStatus;
  /** Why it was skipped or is unfinished. */
  readonly reason?: string;
  /** The error that broke it. */
  readonly error?: unknown;
  /** For laws on promises that the backend does not make: whether they hold all the same. */
  readonly observed?: { readonly holds: boolean; readonly detail?: string };
  /** The largest error over tolerance. 1 uses all of the tolerance, more breaks the law. 0 if nothing was measured. */
  readonly worst: number;
  readonly measurements: Measurements;
  /** Whether its cases are the same for every seed. */
  readonly isFixed: boolean;
  readonly milliseconds: number;
}

/** How to try one law. */
export interface Trial {
  readonly seed: number;
  readonly ended: () => string | undefined;
  readonly only?: SearchOptions["only"];
}

type HowToTry = Pick<Plan, "mode" | "runs" | "shrink" | "replay" | "grade" | "patience">;

/** One initialised backend that the laws share. It is replaced after a law was broken on it. */
export class Bench {
  readonly #subject: Pick<Subject, "create" | "loseDevice">;
  readonly #plan: HowToTry;
  #backend: ComputeBackend | undefined;

  constructor(subject: Pick<Subject, "create" | "loseDevice">, plan: HowToTry) {
    this.#subject = subject;
    this.#plan = plan;
  }

  open(): Promise<ComputeBackend> {
    return withPatience(this.#plan.patience, () => this.#open());
  }

  close(): Promise<void> {
    return withPatience(this.#plan.patience, () => this.#close());
  }

  run(law: Law, trial: Trial): Promise<LawResult> {
    return withPatience(this.#plan.patience, () => this.#run(law, trial));
  }

  async #open(): Promise<ComputeBackend> {
    if (this.#backend !== undefined) return this.#backend;
    const backend = await this.#create();
    try {
      await settled(backend.init(), "init");
    } catch (error) {
      await dispose(backend).catch(() => {});
      throw error;
    }
    this.#backend = backend;
    return backend;
  }

  #create(): Promise<ComputeBackend> {
    return backendMadeBy(this.#subject.create);
  }

  async #close(): Promise<void> {
    const backend = this.#backend;
    this.#backend = undefined;
    if (backend !== undefined) await dispose(backend);
  }

  async #run(law: Law, trial: Trial): Promise<LawResult> {
    const started = performance.now();
    const created: ComputeBackend[] = [];
    const recorder = new Recorder();
    let isFixed = false;
    let hasRun = false;
    const finish = (result: Pick<LawResult, "status" | "reason" | "error" | "observed">): LawResult => {
      // A law that draws no cases counts as one case.
      if (hasRun && recorder.measurements.cases === 0) recorder.countCase();
      const { measurements } = recorder;
      const milliseconds = performance.now() - started;
      return { law, ...result, worst: measurements.worst ?? 0, measurements, isFixed, milliseconds };
    };
    await breathe();
    const late = trial.ended();
    if (late !== undefined) return finish({ status: "unfinished", reason: `${late} before it was begun` });
    const { loseDevice } = this.#subject;
    let unpromised: string | undefined;
    try {
      const backend = await this.#open();
      const reason = exemption(law, backend, loseDevice !== undefined);
      if (reason !== undefined) return finish({ status: "skipped", reason });
      unpromised = this.#unpromised(law, backend);
      const unopened = async () => {
        const instance = await this.#create();
        created.push(instance);
        return instance;
      };
      const fresh = async () => {
        const instance = await unopened();
        await settled(instance.init(), "init");
        return instance;
      };
      const { seed, ended, only } = trial;
      const { mode, runs, shrink, replay } = this.#plan;
      const isQuick = mode === "quick";
      // A broken promise that was never made is not worth a search for its smallest case.
      const isShrinking = shrink && unpromised === undefined;
      const search = { isQuick, seed, runs, shrink: isShrinking, replay, only, recorder, ended };
      const context: LawContext = {
        law,
        backend,
        fresh,
        unopened,
        loseDevice: async (instance) => loseDevice?.(instance),
        numerics: this.#numerics(law, backend),
        forAll: (arbitrary, property, options) => forAll(law, search, arbitrary, property, options),
        forEach(cases, property, options) {
          isFixed = true;
          return forEach(law, search, cases, property, options);
        },
        observe: (ratio, extents) => recorder.observe(ratio, extents),
        observeUnits: (observation) => recorder.observeUnits(observation),
        replayPath: replay?.replayPath,
      };
      hasRun = true;
      await untilItHangs(law.run(context), law, recorder);
      const { liveAllocations } = backend.memory();
      if (liveAllocations !== 0) throw new Error(`${liveAllocations} allocations were left live`);
      if (unpromised === undefined) return finish({ status: "kept" });
      return finish({ status: "skipped", reason: unpromised, observed: { holds: true } });
    } catch (error) {
      if (error instanceof Unfinished) {
        if (unpromised !== undefined) return finish({ status: "skipped", reason: unpromised });
        return finish({ status: "unfinished", reason: error.message });
      }
      const failure = asFailure(law, trial.seed, error);
      // The remains of a broken law must not break the next one.
      if (unpromised === undefined || !(await this.#isSound())) await this.#close().catch(() => {});
      if (unpromised === undefined) return finish({ status: "broken", error: failure });
      const observed = { holds: false, detail: failure.reason };
      return finish({ status: "skipped", reason: unpromised, observed });
    } finally {
      for (const instance of created) await dispose(instance).catch(() => {});
    }
  }

  /** Whether the shared backend came out of a law as it went in. */
  async #isSound(): Promise<boolean> {
    try {
      await settled(this.#backend!.synchronize(), "synchronize");
      return this.#backend!.memory().liveAllocations === 0;
    } catch {
      return false;
    }
  }

  /**
   * Returns why the law is tried but not required: the promise that the backend does not make. Otherwise undefined.
   */
  #unpromised(law: Law, backend: ComputeBackend): string | undefined {
    const { promise, grade } = law;
    if (promise === undefined || (grade === "tight" && this.#plan.grade === "tight")) return undefined;
    const declared = backend.capabilities.numerics[promise.flag];
    return declared === promise.value ? undefined : `${promise.flag} is declared ${String(declared)}`;
  }

  #numerics(law: Law, backend: ComputeBackend): Numerics {
    const declared = backend.capabilities.numerics;
    const promised = law.promise === undefined ? {} : { [law.promise.flag]: law.promise.value };
    const asked = this.#plan.grade === "tight" ? { rounding: "nearest-even" as const } : {};
    return { ...declared, ...promised, ...asked };
  }
}

/** Waits for a law to end. Throws `Hung` if it neither ends nor begins a further case. */
async function untilItHangs(end: Promise<void>, law: Law, recorder: Recorder): Promise<void> {
  for (;;) {
    const { cases } = recorder.measurements;
    try {
      return await settledAsWhole(end, lawId(law));
    } catch (error) {
      if (!(error instanceof Hung) || recorder.measurements.cases === cases) throw error;
    }
  }
}

function dispose(backend: ComputeBackend): Promise<void> {
  return settled(Promise.resolve(backend.dispose()), "dispose");
}

/** Laws without cases throw any error; the error reported always has its replay line. */
function asFailure(law: Law, seed: number, error: unknown): LawFailure {
  return error instanceof LawFailure ? error : new LawFailure({ law: lawId(law), seed }, error);
}

/** Returns why a law does not bind a backend, given what the backend declares; undefined if it does. */
function exemption(law: Law, backend: ComputeBackend, canLose: boolean): string | undefined {
  const { operation, dtype, needsLoss = false } = law;
  if (operation !== undefined && dtype !== undefined && !backend.supports(operation, { dtype }))
    return `${operation} in ${dtype} is not supported`;
  if (needsLoss && !canLose) return "loseDevice is not declared";
  return law.exempt?.(backend.capabilities, backend);
}

/**
 * Stands in for missing capabilities, so that there can be a report on the backend. Laws report that they are
 * missing.
 */
const undeclared: Capabilities = {
  device: { kind: "other", name: "not described", software: false, details: {} },
  dtypes: [],
  limits: { maxAllocationBytes: 0 },
  numerics: {
    ...{ nan: "unspecified", infinity: "unspecified", subnormals: "flushed", signedZero: "unspecified" },
    ...{ rounding: "unspecified", deterministic: false },
  },
  synchronousReads: false,
};

export function factsOf(backend: ComputeBackend): BackendFacts {
  const declared = attempt(() => backend.capabilities, undeclared);
  const capabilities: Capabilities = {
    device: { ...undeclared.device, ...declared?.device },
    dtypes: declared?.dtypes ?? undeclared.dtypes,
    limits: { ...undeclared.limits, ...declared?.limits },
    numerics: { ...undeclared.numerics, ...declared?.numerics },
    ...(declared?.accuracy === undefined ? {} : { accuracy: declared.accuracy }),
    synchronousReads: declared?.synchronousReads ?? undeclared.synchronousReads,
  };
  const has = (operation: OperationName, question: Question) =>
    attempt(() => backend.supports(operation, question), false);
  const supports = operationNames.flatMap((operation) =>
    typesOf(operation).map((dtype): Support => {
      const kinds = kindsOf(testedOperations[operation], dtype);
      return {
        ...{ operation, dtype, supported: has(operation, { dtype }) },
        kinds: kinds === undefined ? undefined : divided(kinds, (kind) => has(operation, { dtype, kind })),
      };
    }),
  );
  return { name: String(backend.name), capabilities, supports };
}

/** The element types that the operation is defined for. */
function typesOf(operation: OperationName): readonly DType[] {
  const table: Readonly<Record<string, object>> = operations[operation].arguments;
  // Types of single operands, in lists or beside `dtype`, do not make a call one of that type.
  const all = operations[operation].decisive.filter(
    ({ role, argument }) => role === "elementType" && !("list" in table[argument]!),
  );
  const own = all.filter(({ argument }) => argument === "dtype");
  const types = own.length > 0 ? own : all;
  return dtypes.filter((dtype) => types.some(({ values }) => values?.includes(dtype)));
}

function divided(kinds: readonly string[], has: (kind: string) => boolean): NonNullable<Support["kinds"]> {
  return { supported: kinds.filter(has), missing: kinds.filter((kind) => !has(kind)) };
}

function attempt<Value>(question: () => Value, otherwise: Value): Value {
  try {
    return question();
  } catch {
    return otherwise;
  }
}
