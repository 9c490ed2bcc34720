import { createBackend, type PoolStatistics } from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import type { Mutant } from "../mutant.js";
import { ReferenceDriver } from "../reference.js";
import { altered } from "./faulty-backends.js";
import { QueuedDriver } from "./queued-drivers.js";

const state =
  "lifecycle: state is new until init has opened the device, then open, and disposed as soon as that is asked for";
const refused = "loss: after a loss every call is refused as DEVICE_LOST, and questions are answered";
const trimmed = "memory: trim gives pooled memory back, and leaves all else as it is";
const counted = "memory: statistics of the pool agree with those of all memory";
const seesAll = "memory: copyDtoHSync sees all calls before it, in whatever number";
const sameBytes = "memory: copyDtoHSync gives the bytes that copyDtoH gives, and no others";

/** Keeps freed memory for those who want as much again: not wrong in itself. */
class PoolingDriver extends ReferenceDriver {
  protected readonly pooled: ReferenceMemory[] = [];
  #hits = 0;
  #misses = 0;

  override async close(): Promise<void> {
    this.pooled.length = 0;
    await super.close();
  }

  override alloc(bytes: number): ReferenceMemory {
    const at = this.pooled.findIndex((memory) => memory.length === bytes);
    if (at < 0) {
      this.#misses++;
      return super.alloc(bytes);
    }
    this.#hits++;
    return this.pooled.splice(at, 1)[0]!.fill(0);
  }

  override free(memory: ReferenceMemory): void {
    this.pooled.push(memory);
  }

  pool(): PoolStatistics {
    const pooledBytes = this.pooled.reduce((sum, memory) => sum + memory.length, 0);
    return { pooledBytes, poolHits: this.#hits, poolMisses: this.#misses };
  }

  trim(): void {
    for (const memory of this.pooled.splice(0)) super.free(memory);
  }
}

/** Returns the memory that was pooled last to the system, although it may be in use again. */
class RecklessDriver extends PoolingDriver {
  #last: ReferenceMemory | undefined;

  override free(memory: ReferenceMemory): void {
    this.#last = memory;
    super.free(memory);
  }

  override trim(): void {
    super.trim();
    this.#last?.fill(0xdb);
  }
}

/** Counts the memory that it has taken for the pool, and not the memory that it has returned. */
class ForgetfulPoolDriver extends PoolingDriver {
  #pooledBytes = 0;

  override free(memory: ReferenceMemory): void {
    this.#pooledBytes += memory.length;
    super.free(memory);
  }

  override pool(): PoolStatistics {
    return { ...super.pool(), pooledBytes: this.#pooledBytes };
  }
}

/** Begins nothing at a flush, and forgets it. */
class DroppingDriver extends QueuedDriver {
  override flush(): void {
    this.take();
  }

  override readSync(...args: Parameters<ReferenceDriver["readSync"]>): void {
    super.flush();
    super.readSync(...args);
  }

  override async synchronize(): Promise<void> {
    super.flush();
  }
}

/** Reads the present bytes at once, while `read` waits for its turn. */
class HastyDriver extends QueuedDriver {
  override async read(...args: Parameters<ReferenceDriver["read"]>): Promise<void> {
    this.flush();
    this.readAsItIs(...args);
  }

  override readSync(...args: Parameters<ReferenceDriver["readSync"]>): void {
    this.readAsItIs(...args);
  }
}

/** Reads at once from the beginning of an allocation. */
class OffsetlessDriver extends ReferenceDriver {
  override async read(...args: Parameters<ReferenceDriver["read"]>): Promise<void> {
    super.readSync(...args);
  }

  override readSync(destination: Uint8Array<ArrayBufferLike>, source: ReferenceMemory): void {
    super.readSync(destination, source, 0);
  }
}

/** Defects of the parts that a framework uses beside its work: the state, the pool, and synchronous reads. */
export const housekeepingMutants: readonly Mutant[] = [
  {
    name: "open for ever",
    defect: "lifecycle",
    description: "The state is open from init on, whatever has happened since.",
    killedBy: [state, refused, "lifecycle: after dispose every call is refused as DISPOSED"],
    create: () =>
      altered((right) => ({
        get state() {
          return right.state === "new" ? "new" : "open";
        },
      })),
  },
  {
    name: "drops what waits at a flush",
    defect: "order",
    description: "Forgets the commands that are recorded instead of submitting them.",
    killedBy: ["ordering: flush changes nothing but when work begins"],
    create: () => createBackend(new DroppingDriver()),
  },
  {
    name: "flushes while it is closed",
    defect: "lifecycle",
    description: "There is nothing to flush, so nobody looks whether there is a device.",
    killedBy: [
      "lifecycle: before init every call is refused as NOT_INITIALIZED",
      "lifecycle: after dispose every call is refused as DISPOSED",
      refused,
    ],
    create: () => altered(() => ({ flush() {} })),
  },
  {
    name: "trims what is in use again",
    defect: "memory",
    description: "Gives memory back that was lent anew.",
    killedBy: [trimmed],
    create: () => createBackend(new RecklessDriver()),
  },
  {
    name: "counts pooled memory that it has lent",
    defect: "lifecycle",
    description: "Counts what comes to the pool, and not what leaves it.",
    killedBy: [counted, trimmed],
    create: () => createBackend(new ForgetfulPoolDriver()),
  },
  {
    name: "reads at once before its turn",
    defect: "order",
    description: "A synchronous read does not wait for the calls before it.",
    killedBy: [seesAll, sameBytes],
    create: () => createBackend(new HastyDriver()),
  },
  {
    name: "reads at once from the start",
    defect: "memory",
    description: "A synchronous read ignores the offset.",
    killedBy: [sameBytes],
    create: () => createBackend(new OffsetlessDriver()),
  },
  {
    name: "answers reads that it cannot do",
    defect: "errors",
    description: "A synchronous read that is not declared returns, with nothing read.",
    killedBy: ["memory: copyDtoHSync is UNSUPPORTED unless it is declared"],
    create: () =>
      altered((right) => ({
        get capabilities() {
          return { ...right.capabilities, synchronousReads: false };
        },
        copyDtoHSync(_, source) {
          right.copyDtoHSync(new Uint8Array(0), source);
        },
      })),
  },
];
