import { type ComputeBackend, createBackend } from "@backplane/core";
import type { Defect, Mutant } from "../mutant.js";
import {
  argumentsFirst,
  CommonDeviceDriver,
  confused,
  countsLostMemory,
  deafToLatecomers,
  freesTheLost,
  hangingAtLoss,
  heardOnceInALife,
  heardTwice,
  listensForEver,
  lostForEver,
  madeUpAtLoss,
  ReservingDriver,
  resentful,
  StuckDriver,
  SurvivingPoolDriver,
  silentWhileLost,
  speechless,
  UnnoticingDriver,
  undead,
  unheard,
  unsharedReopening,
} from "./faulty-losses.js";

const topic = "loss";
const pending = `${topic}: what is pending when the device is lost is answered truly or rejected as DEVICE_LOST`;
const refused = `${topic}: after a loss every call is refused as DEVICE_LOST, and questions are answered`;
const listeners = `${topic}: listeners hear of a loss once; late ones at once, and those that left not at all`;
const disposal = `${topic}: dispose after a loss ends everything, and leaves nothing`;
const reopened = `${topic}: init after a loss opens a fresh device on which everything works`;
const stale = `${topic}: handles from before a loss reach nothing on the fresh device`;
const repeated = `${topic}: every loss is told and can be overcome, also by init from within a listener`;
const leftover = `${topic}: nothing that a lost device leaves behind reaches the fresh one`;
const given = `${topic}: dispose while a fresh device is opened closes it`;
const apart = `${topic}: a loss is that of one backend only`;

const all: readonly [
  name: string,
  defect: Defect,
  description: string,
  killedBy: readonly string[],
  create: () => ComputeBackend,
  hangs?: "hangs",
][] = [
  ["loss not told", "errors", "listeners never hear of a loss", [listeners, repeated], unheard, "hangs"],
  [
    "loss not noticed",
    "errors",
    "a device that is gone answers as if it were there",
    [listeners, refused],
    () => createBackend(new UnnoticingDriver()),
    "hangs",
  ],
  ["loss told twice", "errors", "each listener is called twice for one loss", [listeners], heardTwice],
  [
    "loss not told to latecomers",
    "errors",
    "a listener that is added after the loss waits for the next one",
    [listeners],
    deafToLatecomers,
  ],
  [
    "listeners cannot leave",
    "errors",
    "the function that onLost returns does nothing",
    [listeners],
    listensForEver,
  ],
  ["second loss not told", "lifecycle", "only the first loss is told", [repeated], heardOnceInALife, "hangs"],
  [
    "made-up data at a loss",
    "lifecycle",
    "reads that are pending when the device is lost answer with whatever is there",
    [pending],
    madeUpAtLoss,
  ],
  [
    "reads hang at a loss",
    "lifecycle",
    "reads that are pending when the device is lost never settle",
    [pending, repeated],
    hangingAtLoss,
    "hangs",
  ],
  [
    "calls vanish after a loss",
    "errors",
    "seen in a command queue: what comes after the loss is dropped without a word",
    [refused],
    silentWhileLost,
  ],
  [
    "arguments before the loss",
    "errors",
    "a call on a lost device with bad arguments complains about these",
    [refused],
    argumentsFirst,
  ],
  ["speechless after a loss", "errors", "capabilities cannot be read any more", [refused], speechless],
  [
    "lost for ever",
    "lifecycle",
    "init after a loss is refused",
    [reopened, stale, repeated, leftover, apart],
    lostForEver,
  ],
  [
    "init after a loss is not shared",
    "lifecycle",
    "every call of init after a loss gives another promise",
    [reopened],
    unsharedReopening,
  ],
  [
    "lost memory is still counted",
    "lifecycle",
    "statistics keep what went with the device",
    [refused, reopened],
    countsLostMemory,
  ],
  [
    "lost memory stays reserved",
    "lifecycle",
    "reservedBytes goes on counting what was allocated on the lost device",
    [reopened],
    () => createBackend(new ReservingDriver()),
  ],
  [
    "memory survives a loss",
    "memory",
    "the pool of the lost device serves the fresh one, without being cleared",
    [reopened],
    () => createBackend(new SurvivingPoolDriver()),
  ],
  [
    "lost handles can be freed",
    "lifecycle",
    "free of a handle from before a loss passes",
    [stale],
    freesTheLost,
  ],
  [
    "faults outlive the device",
    "lifecycle",
    "a fault of the lost device rejects a promise of the fresh one",
    [reopened, leftover],
    resentful,
  ],
  [
    "late reports of a lost device",
    "lifecycle",
    "what the lost device says last is told as a fault of the fresh one",
    [leftover],
    confused,
  ],
  [
    "init after a loss ignores dispose",
    "lifecycle",
    "init resolves though the backend was disposed of meanwhile",
    [given],
    undead,
  ],
  [
    "one device for all",
    "lifecycle",
    "the loss of one backend is that of all",
    [apart],
    () => createBackend(new CommonDeviceDriver()),
  ],
  [
    "cannot be closed after a loss",
    "lifecycle",
    "dispose rejects, because the lost device cannot be closed",
    [disposal],
    () => createBackend(new StuckDriver()),
  ],
];

/** Defects of the behaviour after a device is lost. */
export const losingMutants: readonly Mutant[] = all.map(
  ([name, defect, description, killedBy, create, hangs]) => ({
    ...{ name, defect, description, killedBy, create },
    ...(hangs === undefined ? {} : { hangs: true }),
  }),
);
