import { float16FromBits } from "@backplane/core";
import { expect } from "chai";
import { FileError, MemorySource } from "#src/checkpoint/file.js";
import { readCheckpoint } from "#src/checkpoint/formats.js";
import { decodeQ6K } from "#src/checkpoint/q6-k.js";
import { SHAPE_KEY } from "#src/checkpoint/trained.js";
import { byteCharacters } from "#src/tokenizer/byte-pairs.js";
import { readLlama2cTokenizer } from "#src/tokenizer/llama2c.js";
import { TextJoiner, type Tokenizer } from "#src/tokenizer/tokenizer.js";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces, safetensorsFile, shape } from "./tiny.js";

async function refusal(file: Uint8Array): Promise<string> {
  try {
    await readCheckpoint(new MemorySource(file));
  } catch (error) {
    if (error instanceof FileError) return error.message;
    throw error;
  }
  return "none";
}

describe("model files", () => {
  it("give the sizes of the model", async () => {
    for (const file of [llama2cFile(), ggufFile("Q4_0")]) {
      const read = (await readCheckpoint(new MemorySource(file))).shape;
      expect({ ...read, epsilon: Math.fround(read.epsilon) }).to.deep.equal({
        ...shape,
        epsilon: Math.fround(shape.epsilon),
      });
    }
  });

  it("have in blocks of Q6_K what the definition of the format says", () => {
    // A linear congruential generator; the scales of the blocks are ordinary numbers.
    let state = 7;
    const bytes = Uint8Array.from({ length: 3 * 210 }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state >>> 24;
    });
    const scales = [0x3c00, 0x1234, 0x9abc];
    for (const [i, scale] of scales.entries()) {
      bytes[210 * i + 208] = scale & 255;
      bytes[210 * i + 209] = scale >> 8;
    }
    const right = new Float64Array(3 * 256).map((_, i) => {
      const [block, weight] = [210 * Math.floor(i / 256), i % 256];
      const group = Math.floor(weight / 128);
      const [quarter, place] = [Math.floor((weight % 128) / 32), weight % 32];
      const low = bytes[block + 64 * group + 32 * (quarter % 2) + place]!;
      const high = bytes[block + 128 + 32 * group + place]!;
      const ofFour = quarter < 2 ? low % 16 : Math.floor(low / 16);
      const number = ofFour + 16 * (Math.floor(high / 4 ** quarter) % 4);
      const unsigned = bytes[block + 192 + Math.floor(weight / 16)]!;
      const scale = unsigned < 128 ? unsigned : unsigned - 256;
      return float16FromBits(scales[Math.floor(i / 256)]!) * scale * (number - 32);
    });
    expect([...decodeQ6K(bytes)]).to.deep.equal([...right]);
  });

  it("are refused if they are cut off, wherever that is", async () => {
    const checkpoint = llama2cFile();
    expect(await refusal(checkpoint.subarray(0, checkpoint.length - 1))).to.match(/it is cut off\.$/);
    expect(await refusal(checkpoint.subarray(0, 20))).to.contain("20 bytes, which is no model");
    const gguf = ggufFile("Q8_0");
    expect(await refusal(gguf.subarray(0, gguf.length - 64))).to.match(/^It is cut off: output_norm/);
    for (const length of [12, 100, 1000])
      expect(await refusal(gguf.subarray(0, length))).to.match(/^It is cut off: its header goes on after/);
  });

  it("are refused at once if they are far too short for the layers or heads that they announce", async () => {
    const announcing = (...header: number[]) => refusal(new Uint8Array(Int32Array.from(header).buffer));
    // Two billion layers, and a head with as many elements.
    expect(await announcing(2, 1, 2 ** 31 - 1, 1, 1, 1, 1)).to.match(
      /^It has 28 bytes; .*: it is cut off\.$/,
    );
    expect(await announcing(2 ** 31 - 2, 1, 1, 1, 1, -1, 1)).to.match(
      /^It has 28 bytes; .*: it is cut off\.$/,
    );
  });

  it("are refused if they are of another kind", async () => {
    expect(await refusal(new TextEncoder().encode("Once upon a time there was a text."))).to.match(
      /^It is neither a GGUF file nor a checkpoint of llama2\.c/,
    );
    expect(await refusal(new Uint8Array(2))).to.contain("2 bytes, which is no model");
    const longer = new Uint8Array(llama2cFile().length + 1);
    longer.set(llama2cFile());
    expect(await refusal(longer)).to.match(/^It has \d+ bytes; as a checkpoint/);
    const later = new Uint8Array(300);
    later.set(new TextEncoder().encode("24ka"));
    expect(await refusal(later)).to.contain("version 1 or 2");
    const mamba = ggufFile("F32", { metadata: [["general.architecture", "string", "mamba"]] });
    expect(await refusal(mamba)).to.equal("Its architecture is mamba; this program knows llama.");
    expect(await refusal(ggufFile("F32", { typeNumber: 12 }))).to.equal(
      "token_embd.weight is of type Q4_K; this program reads F32, F16, Q4_0, Q8_0, Q6_K, BF16.",
    );
    expect(await refusal(ggufFile("F32", { typeNumber: 14 }))).to.equal(
      "token_embd.weight has rows of 64 weights, which are no whole blocks of Q6_K.",
    );
    expect(await refusal(ggufFile("F32", { extra: "blk.0.attn_q_bias" }))).to.contain("blk.0.attn_q_bias");
    for (const [key, type, value, message] of [
      ["llama.expert_count", "u32", 8, /mixture of 8 experts/],
      ["llama.rope.scaling.type", "string", "yarn", /scaled by yarn/],
      ["llama.attention.head_count_kv", "u32", 3, /4 heads do not divide into 3/],
      ["llama.feed_forward_length", "u32", 128, /extents \[64, 96\]; needed: \[64, 128\]/],
      ["general.alignment", "u32", 0, /^general\.alignment is 0; allowed: positive multiples of 8\.$/],
      ["general.alignment", "u32", 12, /^general\.alignment is 12; allowed/],
      ["general.alignment", "string", "32", /^general\.alignment is 32, which is no number/],
      ["llama.block_count", "u32", 3, /no tensor blk\.2\.attn_norm\.weight/],
      [
        "tokenizer.ggml.model",
        "string",
        "bert",
        /tokenizer is of the kind bert; this program knows llama, gpt2/,
      ],
      ["tokenizer.ggml.model", "string", "toString", /tokenizer is of the kind toString; this program knows/],
      ["tokenizer.ggml.tokens", "u32", 7, /^tokenizer\.ggml\.tokens is no list of texts\.$/],
      ["tokenizer.ggml.tokens", "ints", [7], /^tokenizer\.ggml\.tokens is no list of texts\.$/],
      ["tokenizer.ggml.token_type", "ints", [6], /^The token .* should be a byte like <0x0A>\.$/],
      ["tokenizer.ggml.scores", "texts", ["7"], /^tokenizer\.ggml\.scores is no list of numbers\.$/],
      [
        "tokenizer.ggml.bos_token_id",
        "string",
        "3",
        /^tokenizer\.ggml\.bos_token_id is string 3; allowed: numbers from/,
      ],
      [
        "tokenizer.ggml.eos_token_id",
        "u32",
        1e6,
        /_token_id is number 1000000; allowed: numbers from 0 to \d+\.$/,
      ],
    ] as const)
      expect(await refusal(ggufFile("F32", { metadata: [[key, type, value]] }))).to.match(message);
  });

  it("are refused if numbers in them cannot be computed with", async () => {
    for (const [key, value, message] of [
      ["llama.attention.layer_norm_rms_epsilon", Number.NaN, "epsilon is NaN"],
      ["llama.attention.layer_norm_rms_epsilon", -1, "epsilon is -1"],
      ["llama.attention.layer_norm_rms_epsilon", Number.POSITIVE_INFINITY, "epsilon is Infinity"],
      ["llama.rope.freq_base", Number.NaN, "llama.rope.freq_base is NaN"],
      ["llama.rope.freq_base", 0, "llama.rope.freq_base is 0"],
      ["llama.rope.freq_base", -1, "llama.rope.freq_base is -1"],
    ] as const)
      expect(await refusal(ggufFile("F32", { metadata: [[key, "f32", value]] }))).to.equal(
        `Its header makes no sense: ${message}.`,
      );
  });

  it("are refused if what they say of themselves makes no sense", async () => {
    const saying = (text: string) => refusal(safetensorsFile({ __metadata__: { [SHAPE_KEY]: text } }));
    const changed = (change: object) => saying(JSON.stringify({ ...shape, ...change }));
    expect(await changed({})).to.equal("It has no array embedding.");
    expect(await saying("{")).to.match(/^Its header is not JSON: /);
    expect(await saying("null")).to.equal("Its header makes no sense: it has null in place of an object.");
    for (const [change, message] of [
      [{ heads: "4" }, 'heads is "4"'],
      [{ window: null }, "window is null"],
      [{ epsilon: null }, "epsilon is null"],
      [{ epsilon: -1 }, "epsilon is -1"],
      [{ frequencies: undefined }, "frequencies are no numbers for at most 8 pairs"],
      [{ frequencies: ["1"] }, "frequencies are no numbers for at most 8 pairs"],
    ] as const)
      expect(await changed(change)).to.equal(`Its header makes no sense: ${message}.`);
    for (const [header, message] of [
      [{ __metadata__: { [SHAPE_KEY]: 1 } }, /^Its header makes no sense: its metadata are no texts\.$/],
      [{ embedding: null }, /^Its header makes no sense: embedding is described by null\.$/],
      [{ embedding: { dtype: "F32", shape: 3, data_offsets: [0, 0] } }, /: embedding is described by \{"dty/],
      [{ embedding: { dtype: "F32", shape: [1], data_offsets: [4] } }, /: embedding is described by \{"dty/],
      [{ embedding: { dtype: "F32", shape: [1], data_offsets: [-4, 0] } }, /: embedding is described by/],
    ] as const)
      expect(await refusal(safetensorsFile(header))).to.match(message);
  });

  it("are refused if arrays of metadata lie too deep in one another", async () => {
    const levels = 80_000;
    const file = new DataView(new ArrayBuffer(37 + 12 * levels));
    new Uint8Array(file.buffer).set(new TextEncoder().encode("GGUF"));
    file.setUint32(4, 3, true);
    file.setBigUint64(16, 1n, true);
    // A key of one byte, and an array of arrays of one element each.
    file.setBigUint64(24, 1n, true);
    file.setUint32(33, 9, true);
    for (let level = 0; level < levels; level++) {
      file.setUint32(37 + 12 * level, 9, true);
      file.setBigUint64(41 + 12 * level, 1n, true);
    }
    expect(await refusal(new Uint8Array(file.buffer))).to.match(/arrays in one another, more than 16 deep/);
  });
});

describe("tokenizers", () => {
  const fromLlama2c = readLlama2cTokenizer(llama2cTokenizerFile(pieces), shape.vocabulary);
  let fromGguf: Tokenizer;
  before(async () => {
    fromGguf = (await readCheckpoint(new MemorySource(ggufFile("F32")))).tokenizer!;
  });
  const tokenOf = (text: string) => pieces.findIndex(([piece]) => piece === text);

  it("join the pair with the best score, the leftmost first", () => {
    for (const tokenizer of [fromLlama2c, fromGguf]) {
      const [start, ...tokens] = tokenizer.encode("the hand\n☃é");
      expect(start).to.equal(1);
      const bytes = [0x0a, 0xe2, 0x98, 0x83].map((byte) => byte + 3);
      // " the" by way of " t" and "he"; "an" before " h", and " and" never, for "an" has lost its space by then.
      expect(tokens).to.deep.equal([" the", " h", "and"].map(tokenOf).concat(bytes, tokenOf("é")));
      expect(tokenizer.encode("")).to.deep.equal([1]);
    }
  });

  it("have a byte-order mark for a piece, if it is one", async () => {
    const mark = pieces.length - 1;
    const marked = pieces.with(mark, ["\uFEFF", 0]);
    const texts = marked.map(([text]) => text);
    const metadata = [["tokenizer.ggml.tokens", "texts", texts]] as const;
    for (const tokenizer of [
      readLlama2cTokenizer(llama2cTokenizerFile(marked), shape.vocabulary),
      (await readCheckpoint(new MemorySource(ggufFile("F32", { metadata })))).tokenizer!,
    ])
      expect(tokenizer.encode("\uFEFF")).to.include(mark);
  });

  it("give back the text, also if a character is spread over tokens", () => {
    for (const tokenizer of [fromLlama2c, fromGguf])
      for (const text of ["the sun and  the sea", " naïve ☃", "a", "\uFEFFa\uFEFF"]) {
        const joiner = new TextJoiner(tokenizer, true);
        const [, ...tokens] = tokenizer.encode(text);
        expect(tokens.map((token) => joiner.add(token)).join("")).to.equal(text);
      }
  });

  it("join bytes in the order of the merges, within words", async () => {
    const words = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "1 2", "12 3", "Ċ Ċ"];
    const texts = [...byteCharacters, ...words.map((pair) => pair.replace(" ", "")), "<|begin|>", "<|end|>"];
    while (texts.length < shape.vocabulary) texts.push(`unused ${texts.length}`);
    const byteOf = (text: string) => texts.indexOf(text);
    const begin = byteOf("<|begin|>");
    const metadata = (pre: string) =>
      [
        ["tokenizer.ggml.model", "string", "gpt2"],
        ["tokenizer.ggml.pre", "string", pre],
        ["tokenizer.ggml.tokens", "texts", texts],
        ["tokenizer.ggml.merges", "texts", words],
        ["tokenizer.ggml.token_type", "ints", texts.map((_, token) => (token < begin ? 1 : 3))],
        ["tokenizer.ggml.bos_token_id", "u32", begin],
        ["tokenizer.ggml.eos_token_id", "u32", begin + 1],
      ] as const;
    const read = async (pre: string) =>
      (await readCheckpoint(new MemorySource(ggufFile("F32", { metadata: metadata(pre) })))).tokenizer!;
    const tokenizer = await read("llama-bpe");
    expect([...tokenizer.stops]).to.have.members([begin, begin + 1]);
    for (const [text, tokens] of [
      ["hello world", ["hello", "Ġwor", "ld"]],
      // Numbers are cut after three digits.
      ["1231234", ["123", "123", "4"]],
      // The last space belongs to the word, and both ends of lines stay with the sign before them.
      ["a  world!\n\nhe", ["a", "Ġ", "Ġwor", "ld", "!", "ĊĊ", "he"]],
      ["é", ["Ã", "©"]],
    ] as const) {
      expect(tokenizer.encode(text), text).to.deep.equal([begin, ...tokens.map(byteOf)]);
      const joiner = new TextJoiner(tokenizer, true);
      expect(
        tokenizer
          .encode(text)
          .map((token) => joiner.add(token))
          .join(""),
      ).to.equal(text);
    }
    expect((await read("default")).encode("1231234")).to.deep.equal([
      begin,
      ...["123", "123", "4"].map(byteOf),
    ]);
    expect((await read("default")).encode(" 12")).to.deep.equal([begin, byteOf("Ġ"), byteOf("12")]);
    expect(await refusal(ggufFile("F32", { metadata: metadata("tekken") }))).to.match(
      /cuts texts as tekken does/,
    );
  });

  it("are refused if they are cut off or of another model", () => {
    const file = llama2cTokenizerFile(pieces);
    for (const [bytes, words, message] of [
      [file.subarray(0, file.length - 1), 300, /^It ends after 299 tokens, and the model has 300/],
      [file, 301, /^It ends after 300 tokens/],
      [file, 299, /more than the 299 tokens/],
    ] as const)
      expect(() => readLlama2cTokenizer(bytes, words)).to.throw(FileError, message);
  });
});
