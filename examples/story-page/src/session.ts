import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendError, BackendRegistry, SwitchableBackend } from "@backplane/core";
import {
  type Checkpoint,
  FileError,
  isModel,
  type LoadedWeights,
  loadWeights,
  Meter,
  named,
  readCheckpoint,
  readLlama2cTokenizer,
  Sampler,
  type SamplerOptions,
  TextJoiner,
  type Tokenizer,
  Transformer,
  Writer,
} from "@backplane/example-story";
import { BlobSource } from "./blob-source.js";

const usual = new BackendRegistry([webgpu(), cpu()]);

export interface WritingOptions extends SamplerOptions {
  readonly prompt: string;
  /** The most tokens that are written. */
  readonly tokens: number;
}

/** A piece of the text, and the backend that wrote it. */
export interface Piece {
  readonly text: string;
  readonly backend: string;
}

/** A model whose tokenizer is still to come. */
interface Waiting {
  readonly name: string;
  readonly file: BlobSource;
  readonly checkpoint: Checkpoint;
}

interface Model {
  readonly checkpoint: Checkpoint;
  readonly tokenizer: Tokenizer;
  readonly loaded: LoadedWeights;
}

/** What the page works with: a backend that can be swapped, a model, and one text at a time. */
export class Session implements AsyncDisposable {
  readonly #registry: BackendRegistry;
  readonly #backend: SwitchableBackend;
  /** Why WebGPU cannot be had; undefined if it can. */
  readonly missing: string | undefined;
  #waiting: Waiting | undefined;
  #model: Model | undefined;
  #meter: Meter | undefined;
  #isWriting = false;
  /** Carries out a swap that was asked for, between two tokens. */
  #swap: (() => Promise<void>) | undefined;
  /** Ends with the swap that was asked for. */
  #swapped: Promise<void> | undefined;

  private constructor(registry: BackendRegistry, backend: SwitchableBackend, missing: string | undefined) {
    this.#registry = registry;
    this.#backend = backend;
    this.missing = missing;
  }

  /**
   * Starts on the GPU if there is one; an adapter in software is no better than the CPU.
   *
   * @param registry has backends by the names webgpu and cpu
   */
  static async open(registry: BackendRegistry = usual): Promise<Session> {
    const listed = (await registry.list()).find(({ name }) => name === "webgpu")!;
    const hasGpu = listed.available && !listed.device.software;
    const backend = new SwitchableBackend(registry, hasGpu ? ["webgpu", "cpu"] : "cpu");
    await backend.init();
    return new Session(registry, backend, listed.available ? undefined : listed.reason);
  }

  /** The name of the backend in use. */
  get backend(): string {
    return this.#backend.current;
  }

  /** The name of the one that would take over. */
  get other(): string {
    return this.#registry.names.find((name) => name !== this.#backend.current)!;
  }

  /** The device in use, and how fast it writes. */
  get pace(): string {
    const { name } = this.#backend.capabilities.device;
    return this.#meter === undefined ? name : `${name}: ${this.#meter}`;
  }

  /**
   * Takes a model file, and if it has no tokenizer that too, together with it or afterwards: until then the model is `waiting`.
   * Throws a FileError that names the file.
   *
   * @param progress gets the share of the weights that are loaded
   */
  async take(files: readonly File[], progress: (fraction: number) => void): Promise<void> {
    const [first, second] = await modelFirst(files);
    if (first === undefined) return;
    const isTokenizer = this.#waiting !== undefined && second === undefined && !first.isModel;
    const waiting = isTokenizer ? this.#waiting! : await opened(first.file);
    const { name, file, checkpoint } = waiting;
    const tokenizerFile = isTokenizer ? first : second;
    const tokenizer =
      tokenizerFile === undefined
        ? checkpoint.tokenizer
        : await tokenizerFrom(tokenizerFile.file, checkpoint.shape.vocabulary);
    if (tokenizer === undefined) {
      this.#waiting = waiting;
      return;
    }
    // Opens a fresh device if the last one was lost.
    await this.#backend.init();
    this.#freeLost();
    this.#model?.loaded.scope.dispose();
    this.#model = undefined;
    const loaded = await named(name, () => loadWeights(this.#backend, file, checkpoint, "f32", { progress }));
    this.#model = { checkpoint, tokenizer, loaded };
    this.#waiting = undefined;
  }

  /** The name of the model that still needs a tokenizer; undefined if none does. */
  get waiting(): string | undefined {
    return this.#waiting?.name;
  }

  /** Whether there is a model to write with. */
  get isReady(): boolean {
    return this.#model !== undefined;
  }

  /** Yields the text after the prompt, piece by piece; some are empty. */
  async *write(options: WritingOptions): AsyncGenerator<Piece, void, undefined> {
    const { checkpoint, tokenizer, loaded } = this.#model!;
    const { shape } = checkpoint;
    const backend = this.#backend;
    const prompt = tokenizer.encode(options.prompt);
    if (prompt.length > shape.length)
      throw new FileError(`The prompt has ${prompt.length} tokens, and the model takes ${shape.length}.`);
    const room = Math.min(shape.length, prompt.length + options.tokens);
    const parts: { free(): void }[] = [];
    const kept = <Part extends { free(): void }>(part: Part): Part => {
      parts.unshift(part);
      return part;
    };
    const meter = new Meter();
    this.#meter = meter;
    this.#isWriting = true;
    try {
      const transformer = kept(new Transformer(backend, shape, loaded.weights, room));
      const sampler = kept(new Sampler(backend, shape.vocabulary, options));
      const writer = kept(new Writer(backend, transformer, sampler));
      const joiner = new TextJoiner(tokenizer, prompt.length === 1);
      for await (const token of writer.write(prompt, options.tokens, tokenizer.stops)) {
        meter.count();
        yield { text: joiner.add(token), backend: backend.current };
        await this.#swap?.();
      }
    } catch (error) {
      if (error instanceof BackendError && error.code === "DEVICE_LOST") this.#model = undefined;
      throw error;
    } finally {
      this.#isWriting = false;
      try {
        // Otherwise they are lost.
        if (this.#backend.state === "open") for (const part of parts) part.free();
        this.#freeLost();
      } finally {
        // Asked for after the last token.
        await this.#swap?.();
      }
    }
  }

  /**
   * Goes on with the other backend: at once, or after the next token of a text. If it fails, nothing changes. While one swap is
   * under way, no other is begun.
   */
  swap(): Promise<void> {
    this.#swapped ??= this.#nextSwap().finally(() => {
      this.#swapped = undefined;
    });
    return this.#swapped;
  }

  /** Ends the session: its backend is closed. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#backend.dispose();
  }

  #nextSwap(): Promise<void> {
    const use = async () => {
      await this.#backend.use(this.other);
      this.#freeLost();
      this.#meter?.restart();
    };
    if (!this.#isWriting) return use();
    return new Promise((resolve, reject) => {
      this.#swap = () => {
        this.#swap = undefined;
        return use().then(resolve, reject);
      };
    });
  }

  /** If there is a device again, frees what a lost one held: the model, and whatever was under way. */
  #freeLost(): void {
    // What is written next tells the writer of the loss.
    if (this.#isWriting || this.#backend.state !== "open") return;
    const { lost } = this.#backend;
    if (lost.length > 0) this.#model = undefined;
    for (const { handle } of lost) this.#backend.free(handle);
  }
}

interface Given {
  readonly file: File;
  readonly isModel: boolean;
}

/** The one that is a model by its first bytes comes first, or else the larger one. */
async function modelFirst(files: readonly File[]): Promise<Given[]> {
  const given = await Promise.all(
    files.map(async (file) => ({ file, isModel: await isModel(new BlobSource(file)) })),
  );
  return given.sort((a, b) => Number(b.isModel) - Number(a.isModel) || b.file.size - a.file.size);
}

async function opened(given: File): Promise<Waiting> {
  const file = new BlobSource(given);
  return { name: given.name, file, checkpoint: await named(given.name, () => readCheckpoint(file)) };
}

function tokenizerFrom(given: File, vocabulary: number): Promise<Tokenizer> {
  return named(given.name, async () =>
    readLlama2cTokenizer(new Uint8Array(await given.arrayBuffer()), vocabulary),
  );
}
