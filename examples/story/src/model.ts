import {
  type ComputeBackend,
  type DeviceHandle,
  dtypeBytes,
  type FloatType,
  type MapNode,
  type Operand,
  openScope,
  type Recording,
  type Scope,
  type Vary,
} from "@backplane/core";
import { moved } from "./matrix.js";
import type { Shape } from "./shape.js";
import type { LayerWeights, Weights } from "./weights.js";

/** Of a token, and of a position. */
const WORD_BYTES = 4;

/** silu(gate) up */
const gated: readonly MapNode[] = [
  { input: 0 },
  { unary: "silu", x: 0 },
  { input: 1 },
  { binary: "mul", a: 1, b: 2 },
];

/** j <= position */
const seen: readonly MapNode[] = [{ index: 0 }, { input: 0 }, { binary: "lessEqual", a: 0, b: 1 }];

/** The same, and position - j < window */
const seenInWindow: readonly MapNode[] = [
  ...seen,
  { binary: "sub", a: 1, b: 0 },
  { parameter: 0, type: "i32" },
  { binary: "less", a: 3, b: 4 },
  { binary: "logicalAnd", a: 2, b: 5 },
];

/** The memory of one pass over `count` tokens. */
interface Workspace {
  readonly count: number;
  /** [count, size]: the residual stream. */
  readonly stream: DeviceHandle;
  readonly normalized: DeviceHandle;
  /** [count, (heads + 2 kvHeads) headSize] */
  readonly queryKeyValue: DeviceHandle;
  /** [count, heads headSize] */
  readonly attended: DeviceHandle;
  /** [2, count, hidden] */
  readonly gateUp: DeviceHandle;
  /** [count, hidden] */
  readonly hidden: DeviceHandle;
}

/** What differs now and then from one recorded pass over a token to the next, besides the token and its place. */
interface Reach {
  /** Places of the cache that attention looks at, from the first one on. */
  readonly reach: number;
}

/**
 * Where the first token of a pass is. The place of a recorded pass is on the device, so that its calls are the same for many
 * tokens: attention reaches past the place, and a mask hides what is behind it.
 */
type Turn = { readonly start: number } | { readonly vary: Vary<Reach> };

/** Reaches are multiples of this, because for each the calls of attention are made again. */
const REACH_STEP = 64;

/**
 * A transformer of the llama architecture (arXiv 2302.13971): RMS normalization, rotary positions, grouped queries and a
 * feed-forward layer with a gate. It keeps keys and values of the tokens that it has seen, with room for a given
 * number of tokens. It enqueues operations of the contract and never waits.
 */
export class Transformer {
  readonly shape: Shape;
  /** Tokens that the cache has room for. */
  readonly room: number;
  /** [vocabulary] in f32: of the last token of the last pass. */
  readonly logits: DeviceHandle;
  readonly #backend: ComputeBackend;
  readonly #weights: Weights;
  readonly #dtype: FloatType;
  readonly #scope: Scope;
  /** [layers, 2, kvHeads, room, headSize]: keys and values of each layer. */
  readonly #cache: DeviceHandle;
  /** Of the rotary positions, [room, pairs]. */
  readonly #cos: DeviceHandle;
  readonly #sin: DeviceHandle;
  /** For passes over one token. */
  readonly #single: Workspace;
  /** [room] in i32: 0, 1, 2, ... */
  readonly #positions: DeviceHandle;
  /** i32: a token whose pass was recorded, and its place. */
  readonly #token: DeviceHandle;
  readonly #position: DeviceHandle;
  /** [room] in u8: the places that this token sees. */
  readonly #seen: DeviceHandle;
  /** The pass over one token, and the revision of the weights that it has. */
  #step: { readonly recording: Recording<Reach>; readonly revision: number | undefined } | undefined;
  /** The logits in the type of the model, unless that is f32. */
  readonly #narrowLogits: DeviceHandle | undefined;

  constructor(
    backend: ComputeBackend,
    shape: Shape,
    weights: Weights,
    room: number,
    dtype: FloatType = "f32",
  ) {
    this.#backend = backend;
    this.shape = shape;
    this.#weights = weights;
    this.room = room;
    this.#dtype = dtype;
    this.#scope = openScope(backend);
    try {
      const { layers, kvHeads, headSize, vocabulary } = shape;
      this.#cache = this.#scope.alloc(layers * 2 * kvHeads * room * headSize * dtypeBytes[dtype]);
      const angles = Array.from({ length: room }, (_, at) =>
        shape.frequencies.map((turn) => at * turn),
      ).flat();
      this.#cos = this.#scope.upload(Float32Array.from(angles, Math.cos));
      this.#sin = this.#scope.upload(Float32Array.from(angles, Math.sin));
      this.logits = this.#scope.alloc(4 * vocabulary);
      this.#narrowLogits = dtype === "f32" ? undefined : this.#scope.alloc(vocabulary * dtypeBytes[dtype]);
      this.#single = this.#workspace(this.#scope, 1);
      this.#positions = this.#scope.upload(Int32Array.from({ length: room }, (_, at) => at));
      this.#token = this.#scope.alloc(WORD_BYTES);
      this.#position = this.#scope.alloc(WORD_BYTES);
      this.#seen = this.#scope.alloc(room);
    } catch (error) {
      this.#scope.dispose();
      throw error;
    }
  }

  /** Bytes of the keys and values. */
  get cacheBytes(): number {
    const { layers, kvHeads, headSize } = this.shape;
    return layers * 2 * kvHeads * this.room * headSize * dtypeBytes[this.#dtype];
  }

  /**
   * Enqueues a pass over `count` tokens (i32) at the positions from `start` on, behind those of earlier passes, which
   * leaves the logits of what follows the last one.
   *
   * @param afterLayer is called with the residual stream, [count, size], when each layer has been enqueued
   */
  forward(
    tokens: Operand,
    count: number,
    start: number,
    afterLayer?: (layer: number, stream: DeviceHandle) => void,
  ): void {
    if (count < 1 || start + count > this.room)
      throw new RangeError(`Tokens ${start} to ${start + count - 1}: the cache has room for ${this.room}.`);
    if (count === 1 && afterLayer === undefined) {
      // A recording is checked and planned once, but for what depends on the reach.
      this.#backend.copyDtoD(this.#token, tokens, WORD_BYTES);
      this.#backend.copyDtoD(this.#position, moved(this.#positions, WORD_BYTES * start), WORD_BYTES);
      const reach = Math.min(this.room, REACH_STEP * (Math.floor(start / REACH_STEP) + 1));
      this.#recordedStep().run({ values: { reach } });
      return;
    }
    const scope = openScope(this.#backend);
    try {
      const work = count === 1 ? this.#single : this.#workspace(scope, count);
      this.#pass(work, tokens, { start }, afterLayer);
    } finally {
      scope.dispose();
    }
  }

  /** Frees everything but the weights. */
  free(): void {
    this.#step?.recording.dispose();
    this.#scope.dispose();
  }

  #recordedStep(): Recording<Reach> {
    const { revision } = this.#weights;
    if (this.#step === undefined || this.#step.revision !== revision) {
      this.#step?.recording.dispose();
      const recording = this.#backend.record<Reach>(
        (vary) => {
          this.#see();
          this.#pass(this.#single, this.#token, { vary });
        },
        { reach: this.room },
      );
      this.#step = { recording, revision };
    }
    return this.#step.recording;
  }

  /** From tokens (i32) to the logits. */
  #pass(
    work: Workspace,
    tokens: Operand,
    turn: Turn,
    afterLayer?: (layer: number, stream: DeviceHandle) => void,
  ): void {
    const { count, stream, normalized } = work;
    const { embedding, layers } = this.#weights;
    embedding.lookUp({ count, indices: tokens, output: stream, through: normalized });
    for (const [i, layer] of layers.entries()) {
      this.#attend(work, layer, i, turn);
      this.#feedForward(work, layer);
      afterLayer?.(i, work.stream);
    }
    this.#classify(work);
  }

  /** stream += output of attention */
  #attend(work: Workspace, layer: LayerWeights, index: number, turn: Turn): void {
    const { count } = work;
    this.#normalize(count, work.stream, layer.attentionNorm, work.normalized);
    layer.queryKeyValue.multiply({ count, input: work.normalized, output: work.queryKeyValue });
    this.#turn(work, turn);
    this.#keep(work, index, turn);
    if ("start" in turn) this.#mix(work, index, turn.start + count);
    else turn.vary(({ reach }) => this.#mix(work, index, reach, this.#seen));
    layer.attentionOutput.multiply({ count, input: work.attended, output: work.stream, adds: true });
  }

  /** seen[j] = whether the token at the position sees place j */
  #see(): void {
    const { window } = this.shape;
    this.#backend.map({
      ...{ shape: [this.room], inputs: [this.#position], inputShapes: [[1]], inputTypes: ["i32"] },
      ...(window === undefined ? { nodes: seen } : { nodes: seenInWindow, parameters: [window] }),
      ...{ results: [-1], outputs: [this.#seen], outputTypes: ["u8"] },
    });
  }

  /** Turns queries and keys by their positions. They follow one another in each row, so they turn together. */
  #turn({ count, queryKeyValue }: Workspace, turn: Turn): void {
    const { heads, kvHeads, headSize, frequencies } = this.shape;
    const inRow = [0, headSize, (heads + 2 * kvHeads) * headSize];
    this.#backend.rope({
      kind: "neighbours",
      heads: heads + kvHeads,
      rows: count,
      size: headSize,
      rotated: 2 * frequencies.length,
      length: this.room,
      cos: this.#cos,
      sin: this.#sin,
      ...("start" in turn ? turn : { positions: this.#position }),
      input: queryKeyValue,
      inputStrides: inRow,
      output: queryKeyValue,
      outputStrides: inRow,
      dtype: this.#dtype,
    });
  }

  /** Bytes of the keys of a layer, or of its values, and the elements of those of one head. */
  get #cacheSizes(): { readonly bytes: number; readonly ofHead: number } {
    const { kvHeads, headSize } = this.shape;
    const ofHead = this.room * headSize;
    return { bytes: kvHeads * ofHead * dtypeBytes[this.#dtype], ofHead };
  }

  /** Puts keys and values into the cache of a layer. */
  #keep({ count, queryKeyValue }: Workspace, index: number, turn: Turn): void {
    const { heads, kvHeads, headSize } = this.shape;
    const backend = this.#backend;
    const dtype = this.#dtype;
    const { bytes, ofHead } = this.#cacheSizes;
    const cache = moved(this.#cache, index * 2 * bytes);
    const keysAndValues = moved(queryKeyValue, heads * headSize * dtypeBytes[dtype]);
    if ("start" in turn)
      backend.copy({
        shape: [2 * kvHeads, count, headSize],
        input: keysAndValues,
        inputStrides: [headSize, (heads + 2 * kvHeads) * headSize, 1],
        output: moved(cache, turn.start * headSize * dtypeBytes[dtype]),
        outputStrides: [ofHead, headSize, 1],
        dtype,
      });
    else
      backend.scatter({
        kind: "set",
        shape: [2 * kvHeads, this.room, headSize],
        axis: 1,
        indexShape: [1, count, 1],
        indices: this.#position,
        updates: keysAndValues,
        output: cache,
        dtype,
      });
  }

  /** Mixes the first `length` values of the cache of a layer by queries and keys. Without a mask the last ones are those of the pass. */
  #mix({ count, queryKeyValue, attended }: Workspace, index: number, length: number, mask?: Operand): void {
    const { heads, kvHeads, headSize, window } = this.shape;
    const { bytes, ofHead } = this.#cacheSizes;
    const keys = moved(this.#cache, index * 2 * bytes);
    const keyStrides = [kvHeads * ofHead, ofHead, headSize];
    this.#backend.attention({
      batch: 1,
      heads,
      kvHeads,
      queryLength: count,
      keyLength: length,
      headSize,
      q: queryKeyValue,
      qStrides: [0, headSize, (heads + 2 * kvHeads) * headSize],
      k: keys,
      kStrides: keyStrides,
      v: moved(keys, bytes),
      vStrides: keyStrides,
      out: attended,
      outStrides: [0, headSize, heads * headSize],
      ...(mask === undefined
        ? { causal: "lower-right", ...(window === undefined ? undefined : { window }) }
        : { mask, maskDtype: "u8", maskStrides: [0, 0, 0, 1] }),
      dtype: this.#dtype,
    });
  }

  /** stream += down(silu(gate) up) */
  #feedForward(work: Workspace, layer: LayerWeights): void {
    const { count } = work;
    const { hidden } = this.shape;
    this.#normalize(count, work.stream, layer.feedForwardNorm, work.normalized);
    const up = moved(work.gateUp, count * hidden * dtypeBytes[this.#dtype]);
    const input = work.normalized;
    // In one row, gate and up follow one another anyway.
    if (count === 1) layer.gateUp.multiply({ count, input, output: work.gateUp });
    else {
      layer.gateUp.slice(0, hidden).multiply({ count, input, output: work.gateUp });
      layer.gateUp.slice(hidden, hidden).multiply({ count, input, output: up });
    }
    this.#backend.map({
      shape: [count * hidden],
      inputs: [work.gateUp, up],
      nodes: gated,
      results: [-1],
      outputs: [work.hidden],
      dtype: this.#dtype,
    });
    layer.down.multiply({ count, input: work.hidden, output: work.stream, adds: true });
  }

  #classify({ count, stream, normalized }: Workspace): void {
    const { size, vocabulary } = this.shape;
    const last = moved(stream, (count - 1) * size * dtypeBytes[this.#dtype]);
    this.#normalize(1, last, this.#weights.finalNorm, normalized);
    const output = this.#narrowLogits ?? this.logits;
    this.#weights.classifier.multiply({ count: 1, input: normalized, output });
    if (output !== this.logits)
      this.#backend.copy({
        ...{ shape: [vocabulary], dtype: this.#dtype, outputDtype: "f32" },
        ...{ input: output, output: this.logits },
      });
  }

  #normalize(rows: number, input: Operand, weight: Operand, output: Operand): void {
    const { size, epsilon } = this.shape;
    this.#backend.normalize({ kind: "rms", rows, size, epsilon, input, weight, output, dtype: this.#dtype });
  }

  #workspace(scope: Scope, count: number): Workspace {
    const { size, hidden, heads, kvHeads, headSize } = this.shape;
    const alloc = (columns: number) =>
      scope.alloc(count * columns * dtypeBytes[this.#dtype], { zero: false });
    return {
      count,
      stream: alloc(size),
      normalized: alloc(size),
      queryKeyValue: alloc((heads + 2 * kvHeads) * headSize),
      attended: alloc(heads * headSize),
      gateUp: alloc(2 * hidden),
      hidden: alloc(hidden),
    };
  }
}
