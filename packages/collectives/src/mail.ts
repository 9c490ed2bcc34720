import { type DType, dtypes } from "@backplane/core";
import { bytesOf } from "./agreement.js";
import { CommunicationError } from "./errors.js";
import type { Link } from "./link.js";

/** What sender and receiver must agree on. */
export interface Letter {
  readonly count: number;
  readonly dtype: DType;
}

/** How the sides answer. */
const states = { ready: 0, failed: 1, refused: 2 } as const;

/**
 * Messages from rank to rank. The sender announces a message, the receiver accepts or refuses, and only then the bytes
 * follow: so both learn of a difference, and nothing is written if there is one.
 */
export class Mail {
  readonly #link: Link;
  /** The last message under way by direction, peer and tag: the next one of these waits for it. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(link: Link) {
    this.#link = link;
  }

  /** Resolves when no message is under way. */
  async idle(): Promise<void> {
    await Promise.all(this.#last.values());
  }

  send(reading: Promise<Uint8Array>, letter: Letter, to: number, tag: number): Promise<void> {
    // It is waited for later.
    reading.catch(() => {});
    return this.#inTurn(`to ${to} ${tag}`, async () => {
      const patient = { operation: "send", isPatient: true };
      const [forth, back] = tagsOf(tag);
      const input = await reading.then(
        (bytes) => ({ bytes }),
        (error: unknown) => ({ error }),
      );
      const state = "error" in input ? states.failed : states.ready;
      await this.#link.send(encode(state, letter), to, forth, patient);
      if ("error" in input) throw input.error;
      const answer = new Float64Array(words);
      await this.#link.receive(bytesOf(answer), to, back, patient);
      if (answer[0] !== states.ready) throw mismatch("send", letter, "receives", to, answer);
      await this.#link.send(input.bytes, to, forth, { operation: "send", isPatient: false });
    });
  }

  receive(bytes: Uint8Array, letter: Letter, from: number, tag: number): Promise<void> {
    return this.#inTurn(`from ${from} ${tag}`, async () => {
      const patient = { operation: "receive", isPatient: true };
      const [forth, back] = tagsOf(tag);
      const announced = new Float64Array(words);
      await this.#link.receive(bytesOf(announced), from, forth, patient);
      if (announced[0] === states.failed) {
        const complaint = `rank ${from} could not read what it sends`;
        throw new CommunicationError("RANK_FAILED", "receive", complaint, [from]);
      }
      const isSame = bytesOf(announced).every((byte, i) => byte === encode(states.ready, letter)[i]);
      await this.#link.send(encode(isSame ? states.ready : states.refused, letter), from, back, patient);
      if (!isSame) throw mismatch("receive", letter, "sends", from, announced);
      await this.#link.receive(bytes, from, forth, { operation: "receive", isPatient: false });
    });
  }

  async #inTurn(direction: string, body: () => Promise<void>): Promise<void> {
    const result = (this.#last.get(direction) ?? Promise.resolve()).then(body);
    const ended = result.catch(() => {});
    this.#last.set(direction, ended);
    try {
      await result;
    } finally {
      if (this.#last.get(direction) === ended) this.#last.delete(direction);
    }
  }
}

/** Numbers of an announcement and of an answer: state, element type, count. */
const words = 3;

function encode(state: number, { count, dtype }: Letter): Uint8Array {
  return bytesOf(Float64Array.of(state, dtypes.indexOf(dtype), count));
}

/** The tags of MPI for messages with a tag, and for the answers to them. */
function tagsOf(tag: number): readonly [forth: number, back: number] {
  return [2 * tag, 2 * tag + 1];
}

function mismatch(
  operation: string,
  { count, dtype }: Letter,
  verb: string,
  peer: number,
  theirs: Float64Array,
): CommunicationError {
  const complaint = `has ${count} elements of type ${dtype} on this rank, while rank ${peer} ${verb} ${theirs[2]} of type ${dtypes[theirs[1]!]}; allowed: the same on both`;
  return new CommunicationError("MISMATCH", operation, complaint, [peer]);
}
