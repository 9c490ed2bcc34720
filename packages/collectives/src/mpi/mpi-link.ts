import type { Link, Reducible, ReductionKind, Wait } from "../link.js";
import type { MpiHandle, MpiType } from "./interface.js";
import type { Mpi } from "./library.js";
import type { Requests } from "./requests.js";

/** A communicator of MPI. */
export class MpiLink implements Link {
  readonly rank: number;
  readonly size: number;
  readonly #mpi: Mpi;
  readonly #requests: Requests;
  readonly #group: MpiHandle;

  constructor(mpi: Mpi, requests: Requests, group: MpiHandle) {
    this.#mpi = mpi;
    this.#requests = requests;
    this.#group = group;
    mpi.call.MPI_Comm_set_errhandler(group, mpi.constants.errorsReturn);
    const number = (name: "MPI_Comm_rank" | "MPI_Comm_size"): number => {
      const result = new Int32Array(1);
      mpi.call[name](group, result);
      return result[0]!;
    };
    this.rank = number("MPI_Comm_rank");
    this.size = number("MPI_Comm_size");
  }

  allReduce(values: Reducible, kind: ReductionKind, wait: Wait): Promise<void> {
    const { call, constants } = this.#mpi;
    const how = [values.length, this.#typeOf(values), constants.kinds[kind], this.#group];
    return this.#start(
      (request) => call.MPI_Iallreduce(constants.inPlace, values, ...how, request),
      ...([[values], wait] as const),
    );
  }

  broadcast(bytes: Uint8Array, root: number, wait: Wait): Promise<void> {
    const { call } = this.#mpi;
    return this.#start(
      (request) => call.MPI_Ibcast(bytes, bytes.length, this.#typeOf(bytes), root, this.#group, request),
      ...([[bytes], wait] as const),
    );
  }

  allGather(input: Uint8Array, output: Uint8Array, wait: Wait): Promise<void> {
    const { call } = this.#mpi;
    const [count, type] = [input.length, this.#typeOf(input)];
    return this.#start(
      (request) => call.MPI_Iallgather(input, count, type, output, count, type, this.#group, request),
      ...([[input, output], wait] as const),
    );
  }

  reduceScatter(input: Reducible, output: Reducible, kind: ReductionKind, wait: Wait): Promise<void> {
    const { call, constants } = this.#mpi;
    const how = [output.length, this.#typeOf(output), constants.kinds[kind], this.#group];
    return this.#start(
      (request) => call.MPI_Ireduce_scatter_block(input, output, ...how, request),
      ...([[input, output], wait] as const),
    );
  }

  send(bytes: Uint8Array, to: number, tag: number, wait: Wait): Promise<void> {
    const { call } = this.#mpi;
    return this.#start(
      (request) => call.MPI_Isend(bytes, bytes.length, this.#typeOf(bytes), to, tag, this.#group, request),
      ...([[bytes], wait] as const),
    );
  }

  receive(bytes: Uint8Array, from: number, tag: number, wait: Wait): Promise<void> {
    const { call } = this.#mpi;
    return this.#start(
      (request) => call.MPI_Irecv(bytes, bytes.length, this.#typeOf(bytes), from, tag, this.#group, request),
      ...([[bytes], wait] as const),
    );
  }

  /** MPI has no split that does not block. All ranks are here, so that it takes no longer than its own messages. */
  split(color: number, key: number): Link | undefined {
    const { call, constants } = this.#mpi;
    const result = new BigInt64Array(1);
    const code = call.MPI_Comm_split(this.#group, color < 0 ? constants.undefinedColor : color, key, result);
    this.#requests.check(code, "split");
    return color < 0 ? undefined : new MpiLink(this.#mpi, this.#requests, constants.read(result));
  }

  release(): void {
    const { call, constants } = this.#mpi;
    if (this.#group === constants.world) {
      call.MPI_Finalize();
      return;
    }
    const group = new BigInt64Array(1);
    if (typeof this.#group === "bigint") group[0] = this.#group;
    else new Int32Array(group.buffer)[0] = this.#group;
    call.MPI_Comm_free(group);
  }

  #typeOf(array: Reducible | Uint8Array): MpiHandle {
    return this.#mpi.constants.types[array.constructor.name as MpiType];
  }

  /** Starts a request, unless there is nothing to move: all ranks know that, and MPI is not asked about empty arrays. */
  async #start(
    begin: (request: BigInt64Array) => number,
    arrays: readonly (Reducible | Uint8Array)[],
    wait: Wait,
  ): Promise<void> {
    if (arrays[0]!.length > 0) await this.#requests.start(begin, arrays, wait);
  }
}
