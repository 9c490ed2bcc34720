import {
  type BackendError,
  type ComputeBackend,
  createBackend,
  type DriverRecording,
  type ErrorCode,
  type Recording,
  type RunChanges,
  type Vary,
} from "@backplane/core";
import type { Place, ReferenceMemory } from "../elements.js";
import type { Defect, Mutant } from "../mutant.js";
import { ReferenceDriver } from "../reference.js";
import { altered } from "./faulty-backends.js";
import { intercepted } from "./queued-drivers.js";

type Work = () => void;

/** Keeps the work of a part, and does it again at each run: not wrong in itself. */
class RecordingDriver extends ReferenceDriver {
  #captured: Work[] | undefined;
  override readonly kernels = intercepted((_name, _problem, run) => this.#do(run));

  #do(work: Work): void {
    if (this.#captured === undefined) work();
    else this.#captured.push(work);
  }

  override copy(destination: Place, source: Place): void {
    this.#do(() => super.copy(destination, source));
  }

  override fill(destination: Place, pattern: number): void {
    this.#do(() => super.fill(destination, pattern));
  }

  protected capture(enqueue: () => void): readonly Work[] {
    const captured: Work[] = [];
    this.#captured = captured;
    try {
      enqueue();
    } finally {
      this.#captured = undefined;
    }
    return captured;
  }

  record(): DriverRecording {
    const parts: (readonly Work[])[] = [];
    return {
      plan: (place, enqueue) => {
        parts[place] = this.planned(parts[place], enqueue);
      },
      run: () => {
        for (const work of this.ordered(parts.flat())) work();
      },
      dispose: () => {},
    };
  }

  protected planned(_before: readonly Work[] | undefined, enqueue: () => void): readonly Work[] {
    return this.capture(enqueue);
  }

  protected ordered(work: readonly Work[]): readonly Work[] {
    return work;
  }
}

/** Plans each part once, whatever changes. */
class OncePlannedDriver extends RecordingDriver {
  protected override planned(before: readonly Work[] | undefined, enqueue: () => void): readonly Work[] {
    return before ?? this.capture(enqueue);
  }
}

class HastyDriver extends RecordingDriver {
  protected override planned(_: readonly Work[] | undefined, enqueue: () => void): readonly Work[] {
    const work = this.capture(enqueue);
    for (const one of work) one();
    return work;
  }
}

class ShortDriver extends RecordingDriver {
  protected override ordered(work: readonly Work[]): readonly Work[] {
    return work.length > 2 ? work.slice(0, -1) : work;
  }
}

class ShuffledDriver extends RecordingDriver {
  protected override ordered(work: readonly Work[]): readonly Work[] {
    return work.length < 3 ? work : [...work.slice(0, -2), work.at(-1)!, work.at(-2)!];
  }
}

/** Has a queue of a fixed length. */
class LimitedDriver extends RecordingDriver {
  protected override ordered(work: readonly Work[]): readonly Work[] {
    return work.slice(0, 512);
  }
}

class SpentDriver extends RecordingDriver {
  override record(): DriverRecording {
    const right = super.record();
    let runs = 0;
    return { ...right, run: () => (runs++ < 2 ? right.run() : undefined) };
  }
}

/** Keeps memory for every recording. */
class KeepingDriver extends RecordingDriver {
  override record(): DriverRecording {
    this.alloc(2 ** 17);
    return super.record();
  }
}

/** Gives the memory that a call works in back when it is planned, and works in it at each run. */
class CarelessDriver extends RecordingDriver {
  readonly #spare: ReferenceMemory = new Uint8Array(4096);
  #isLent = false;

  override alloc(bytes: number): ReferenceMemory {
    if (bytes !== 4096 || this.#isLent) return super.alloc(bytes);
    this.#isLent = true;
    return this.#spare;
  }

  protected override planned(_: readonly Work[] | undefined, enqueue: () => void): readonly Work[] {
    return [...this.capture(enqueue), () => void this.#spare.fill(0x5a, 0, 64)];
  }
}

type Body = (vary: Vary<object>) => unknown;
type Changes = RunChanges<object> | undefined;

/** A reference backend whose recordings are replaced. */
function withRecordings(
  replace: (step: Recording, body: Body, right: ComputeBackend) => Partial<Recording>,
  bodyFor: (body: Body) => Body = (body) => body,
): ComputeBackend {
  return altered((right) => ({
    record: ((body: Body, values: object): Recording => {
      const step = right.record(bodyFor(body) as (vary: Vary<object>) => void, values ?? {});
      return {
        run: (changes) => step.run(changes),
        dispose: () => step.dispose(),
        [Symbol.dispose]: () => step.dispose(),
        ...replace(step, body, right),
      };
    }) as ComputeBackend["record"],
  }));
}

/** Lets errors with this code go by in silence. */
function deafTo(code: ErrorCode): ComputeBackend {
  return withRecordings((step) => ({
    run(changes: Changes) {
      try {
        step.run(changes);
      } catch (error) {
        if ((error as BackendError).code !== code) throw error;
      }
    },
  }));
}

function changing(change: (changes: NonNullable<Changes>) => NonNullable<Changes>): ComputeBackend {
  return withRecordings((step) => ({ run: (changes: Changes) => step.run(change(changes ?? {})) }));
}

function ignoresValues(): ComputeBackend {
  return changing(({ operands }) => (operands === undefined ? {} : { operands }));
}

function ignoresOperands(): ComputeBackend {
  return changing(({ values }) => (values === undefined ? {} : { values }));
}

function remembersChanges(): ComputeBackend {
  return withRecordings((step) => {
    let latest: NonNullable<Changes> = {};
    return {
      run(changes: Changes) {
        latest = { ...latest, ...changes };
        step.run(latest);
      },
    };
  });
}

/** Notices a freed operand when it comes to the call that needs it. */
function refusesHalfWay(): ComputeBackend {
  return withRecordings((step, body) => ({
    run(changes: Changes) {
      try {
        step.run(changes);
      } catch (error) {
        if ((error as BackendError).code === "INVALID_HANDLE" && changes === undefined) body(() => {});
        throw error;
      }
    },
  }));
}

function waitsForNobody(): ComputeBackend {
  return withRecordings(
    () => ({}),
    (body) => (vary) => void (typeof body === "function" ? body(vary) : undefined),
  );
}

function flushesMeanwhile(): ComputeBackend {
  return altered((right) => ({
    flush() {
      try {
        right.flush();
      } catch (error) {
        if ((error as BackendError).code !== "BUSY") throw error;
      }
    },
  }));
}

const named = (name: string) => `recordings: ${name}`;
const sameAsPlain = named("binary: does the same as its plain call, also on other operands");
const nothingYet = named("recording carries nothing out, and takes its arguments at the call");
const inOrder = named("runs, plain calls, writes and reads take effect in the order in which they are made");
const values = named("values reach the parts that vary, for one run only");
const rebinding = named("other operands take the place of recorded ones, for one run only");
const freed = named("a run is refused whole if an operand was freed");
const refusals = named("calls that cannot be recorded are refused, and a body that fails records nothing");
const many = named("thousands of dependent calls in one recording all happen, in order, in every run");
const random = named("random programs, recorded, do what the same calls do one by one");

type Row = readonly [
  name: string,
  defect: Defect,
  description: string,
  killedBy: readonly string[],
  create: () => ComputeBackend,
];

const driven = (
  name: string,
  defect: Defect,
  description: string,
  killedBy: readonly string[],
  driver: () => ReferenceDriver,
): Row => [name, defect, description, killedBy, () => createBackend(driver())];

const rows: readonly Row[] = [
  driven(
    "plans each part of a recording once",
    "lifecycle",
    "keeps the parameters and operands of the first run",
    [sameAsPlain, values, rebinding, random],
    () => new OncePlannedDriver(),
  ),
  driven(
    "drops the last call of a recording",
    "edge",
    "recordings of more than two calls end one call too early",
    [inOrder, random],
    () => new ShortDriver(),
  ),
  driven(
    "exchanges the last two calls of a recording",
    "order",
    "the last call takes effect before the one ahead of it",
    [inOrder, random],
    () => new ShuffledDriver(),
  ),
  driven(
    "records at most 512 calls",
    "edge",
    "calls past the 512th are never carried out",
    [many],
    () => new LimitedDriver(),
  ),
  driven(
    "carries out what it records",
    "order",
    "calls take effect when they are planned",
    [nothingYet, random],
    () => new HastyDriver(),
  ),
  driven(
    "runs a recording twice",
    "lifecycle",
    "the third run does nothing",
    [sameAsPlain, inOrder, many],
    () => new SpentDriver(),
  ),
  driven(
    "memory kept at each recording",
    "lifecycle",
    "what a recording holds is not given back",
    [named("recordings give back what they held")],
    () => new KeepingDriver(),
  ),
  driven(
    "recordings work in memory of others",
    "memory",
    "memory of its own goes back to the pool once a call is planned, and each run writes to it",
    [sameAsPlain],
    () => new CarelessDriver(),
  ),
  [
    "ignores new values of a recording",
    "lifecycle",
    "parts that vary stay as they were recorded",
    [values, random, named("a recording goes on after a swap, and during one")],
    ignoresValues,
  ],
  [
    "ignores other operands of a recording",
    "lifecycle",
    "every run works on the recorded operands",
    [sameAsPlain, rebinding, random],
    ignoresOperands,
  ],
  [
    "remembers the changes of a run",
    "lifecycle",
    "what one run changes stays changed in the next",
    [sameAsPlain, values, rebinding, random],
    remembersChanges,
  ],
  [
    "passes over freed operands of a recording",
    "errors",
    "a run with a freed operand does nothing, in silence",
    [freed, random],
    () => deafTo("INVALID_HANDLE"),
  ],
  [
    "runs what was disposed of",
    "errors",
    "a run after dispose is accepted",
    [named("a recording that was disposed of is refused, and what it enqueued still happens"), random],
    () => deafTo("DISPOSED"),
  ],
  [
    "forgets nothing with its device",
    "lifecycle",
    "a run on a lost device is accepted",
    [named("a lost device takes its recordings along")],
    () => deafTo("DEVICE_LOST"),
  ],
  [
    "refuses a run half-way",
    "errors",
    "calls before the one with a freed operand are carried out",
    [freed],
    refusesHalfWay,
  ],
  [
    "records asynchronous functions",
    "errors",
    "calls after the first await of a body are carried out, not recorded",
    [refusals],
    waitsForNobody,
  ],
  [
    "flushes while it records",
    "errors",
    "a call that cannot be recorded is accepted",
    [refusals],
    flushesMeanwhile,
  ],
];

/** Defects of recordings. */
export const recordingMutants: readonly Mutant[] = rows.map(
  ([name, defect, description, killedBy, create]) => ({
    ...{ name, defect, topic: "recordings", description, killedBy, create },
  }),
);
