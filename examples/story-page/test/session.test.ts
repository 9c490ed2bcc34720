import { cpu, createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, type WebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendError, BackendRegistry, type ComputeBackend } from "@backplane/core";
import { FileError } from "@backplane/example-story";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces } from "@backplane/example-story/tiny.js";
import { expect } from "chai";
import { Session } from "#src/session.js";

const file = (name: string, bytes: Uint8Array): File => new File([Uint8Array.from(bytes)], name);
const model = file("tiny.bin", llama2cFile());
const tokenizer = file("tokenizer.bin", llama2cTokenizerFile(pieces));
const gguf = file("tiny.gguf", ggufFile("F32"));

/** A file whose bytes come only when a promise has ended. */
class WaitingFile extends File {
  until: Promise<unknown> = Promise.resolve();

  override slice(...place: Parameters<Blob["slice"]>): Blob {
    const part = super.slice(...place);
    const read = part.arrayBuffer.bind(part);
    part.arrayBuffer = async () => {
      await this.until;
      return read();
    };
    return part;
  }
}

const ignore = () => {};

async function failure(body: Promise<unknown>): Promise<unknown> {
  return body.then(
    () => expect.fail("it is done"),
    (error: unknown) => error,
  );
}

describe("the session of the story page", () => {
  let session: Session;
  let host: ComputeBackend;
  let gpu: WebGpuBackend;
  beforeEach(async () => {
    session = await Session.open(
      new BackendRegistry([
        {
          ...webgpu(),
          create: () => {
            gpu = createWebGpuBackend();
            return gpu;
          },
        },
        {
          ...cpu(),
          create: () => {
            host = createCpuBackend({ threads: 0 });
            return host;
          },
        },
      ]),
    );
  });
  afterEach(() => session[Symbol.asyncDispose]());

  it("keeps a model that waits for its tokenizer until it has one, or another model is there", async () => {
    await session.take([model], ignore);
    expect([session.waiting, session.isReady]).to.deep.equal(["tiny.bin", false]);
    const cut = file("cut.bin", llama2cTokenizerFile(pieces).subarray(0, 200));
    expect(await failure(session.take([cut], ignore))).to.be.instanceOf(FileError);
    expect(session.waiting).to.equal("tiny.bin");
    await session.take([tokenizer], ignore);
    expect([session.waiting, session.isReady]).to.deep.equal([undefined, true]);

    await session.take([model], ignore);
    const broken = file("cut.gguf", ggufFile("F32").subarray(0, 5000));
    expect(String(await failure(session.take([broken], ignore)))).to.match(/cut\.gguf: It is cut off/);
    expect([session.waiting, session.isReady]).to.deep.equal(["tiny.bin", true]);
    await session.take([gguf], ignore);
    expect([session.waiting, session.isReady]).to.deep.equal([undefined, true]);
  });

  it("knows a GGUF file by its first bytes, beside a file that is larger", async () => {
    const larger = file("tokenizer.bin", new Uint8Array(gguf.size + 1));
    const error = await failure(session.take([larger, gguf], ignore));
    expect(String(error)).to.match(/tokenizer\.bin: /);
  });

  it("frees what was loaded when the device was lost meanwhile", async () => {
    await session.take([gguf], ignore);
    const { liveAllocations } = host.memory();
    for (const goOn of [() => session.swap(), () => session.take([gguf], ignore)]) {
      if (session.backend === "cpu") await session.swap();
      const waiting = new WaitingFile([ggufFile("F32").slice()], "tiny.gguf");
      const error = await failure(
        session.take([waiting], (fraction) => {
          if (fraction > 0.5) waiting.until = gpu.loseDevice();
        }),
      );
      expect(error).to.be.instanceOf(BackendError).with.property("code", "DEVICE_LOST");
      expect(session.isReady).to.equal(false);
      await goOn();
      expect(session.backend).to.equal("cpu");
      expect(host.memory().liveAllocations).to.equal(session.isReady ? liveAllocations : 0);
    }
  });

  it("has no model any more when the device was lost, and swaps once however often it is asked", async () => {
    await session.swap();
    await session.take([gguf], ignore);
    await gpu.loseDevice();
    const swaps = [session.swap(), session.swap()];
    expect(swaps[1]).to.equal(swaps[0]);
    await Promise.all(swaps);
    expect([session.backend, session.isReady]).to.deep.equal(["cpu", false]);
    expect(host.memory().liveAllocations).to.equal(0);
  });
});
