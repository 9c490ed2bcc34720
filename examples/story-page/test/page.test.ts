// Tags: engines
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCpuBackend } from "@backplane/backend-cpu";
import {
  loadWeights,
  MemorySource,
  readCheckpoint,
  Sampler,
  TextJoiner,
  Transformer,
  Writer,
} from "@backplane/example-story";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces, shape } from "@backplane/example-story/tiny.js";
import { launchBrowser, type StartedPage, startPage } from "@backplane/page/testing.js";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";

/** A folder with stories260K.bin of karpathy/tinyllamas, tok512.bin, and what they should give. */
const VARIABLE = "BACKPLANE_STORY_DATA";
const data = process.env[VARIABLE];

const main = new URL("../dist/main.js", import.meta.url);
const TOKENS = 30;

/** The greedy text of the tiny model, by the CPU in Node.js. */
async function tinyText(prompt: string): Promise<string> {
  const source = new MemorySource(ggufFile("F32"));
  const checkpoint = await readCheckpoint(source);
  const tokenizer = checkpoint.tokenizer!;
  await using backend = createCpuBackend();
  await backend.init();
  const { weights } = await loadWeights(backend, source, checkpoint, "f32");
  const transformer = new Transformer(backend, checkpoint.shape, weights, shape.length);
  const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
  const tokens = tokenizer.encode(prompt);
  const joiner = new TextJoiner(tokenizer, tokens.length === 1);
  let text = prompt;
  for await (const token of new Writer(backend, transformer, sampler).write(tokens, TOKENS, tokenizer.stops))
    text += joiner.add(token);
  return text;
}

const isIn = (state: string) => `document.documentElement.dataset.state === "${state}"`;

/** Hangs are ended by the test runner. */
const forever = { timeout: 0 };

/**
 * Writes greedily, and presses the button of the backends as soon as so many of them write, which is before their second
 * token: the page may show the others all at once. Returns the text, and the backends in their order.
 */
async function written(page: Page, options: Readonly<Record<string, string>>, swaps: number) {
  for (const [name, value] of Object.entries({ temperature: "0", ...options }))
    await page.fill(`[name="${name}"]`, value);
  await page.evaluate((count) => {
    const story = document.getElementById("story")!;
    let pressed = 0;
    const observer = new MutationObserver(() => {
      const parts = story.querySelectorAll("[data-backend]");
      if (pressed === count || parts.length <= pressed) return;
      pressed += 1;
      document.getElementById("swap")!.click();
    });
    observer.observe(story, { childList: true, subtree: true, characterData: true });
  }, swaps);
  await page.click("#write");
  await page.waitForFunction(isIn("ready"), undefined, forever);
  expect(await page.textContent("#problem:not([hidden])", { timeout: 1 }).catch(() => "")).to.equal("");
  const parts = await page.$$eval("#story [data-backend]", (all) =>
    (all as HTMLElement[]).map(({ dataset }) => dataset.backend),
  );
  return { text: await page.textContent("#story"), parts };
}

async function drop(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  const transfer = await page.evaluateHandle(
    ([file, content]) => {
      const given = new DataTransfer();
      given.items.add(new File([Uint8Array.from(content)], file));
      return given;
    },
    [name, [...bytes]] as const,
  );
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}

describe("the page of the story", () => {
  let folder: string;
  let server: StartedPage | undefined;
  let browser: Browser | undefined;
  let page: Page;
  const faults: string[] = [];
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "backplane-story-page-"));
    server = await startPage(main);
    browser = await launchBrowser();
  });
  beforeEach(async () => {
    page = await browser!.newPage();
    page.on("pageerror", (error) => faults.push(error.message));
    await page.goto(server!.address);
    await page.waitForFunction(isIn("empty"), undefined, forever);
  });
  afterEach(async () => {
    await page.close();
    expect(faults).to.deep.equal([]);
  });
  after(async () => {
    // Also if what comes before the tests has failed.
    try {
      await browser?.close();
    } finally {
      await server?.stop();
      rmSync(folder, { recursive: true });
    }
  });

  const inFolder = (name: string, bytes: Uint8Array) => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  const loadedFrom = async (...paths: string[]) => {
    await page.setInputFiles("#files", paths);
    await page.waitForFunction(isIn("ready"), undefined, forever);
  };

  it("writes what Node.js writes, across a swap, with a checkpoint that was picked or dropped", async () => {
    const prompt = "the sea";
    const text = await tinyText(prompt);
    const options = { prompt, tokens: String(TOKENS) };
    expect(await page.textContent("#pace")).to.match(/^WebAssembly SIMD, \d threads?$/);
    await loadedFrom(
      inFolder("tiny.bin", llama2cFile()),
      inFolder("tokenizer.bin", llama2cTokenizerFile(pieces)),
    );
    expect(await written(page, options, 0)).to.deep.equal({ text, parts: ["cpu"] });
    expect(await page.textContent("#pace")).to.match(/: first token after \d+ ms, then [\d,]+ tokens\/s$/);
    expect(await written(page, options, 1)).to.deep.equal({ text, parts: ["cpu", "webgpu"] });
    await drop(page, "tiny.gguf", ggufFile("F32"));
    await page.waitForFunction(`document.getElementById("file-note").textContent === "tiny.gguf"`);
    await page.waitForFunction(isIn("ready"), undefined, forever);
    expect(await written(page, options, 1)).to.deep.equal({ text, parts: ["webgpu", "cpu"] });
    // Nothing is under way: at once.
    await page.click("#swap");
    await page.waitForFunction(`document.getElementById("swap").textContent === "Go on with the CPU"`);
  });

  it("asks for a tokenizer, and says what is wrong with a file or a prompt", async () => {
    const model = inFolder("tiny.bin", llama2cFile());
    const problemAfter = async (path: string) => {
      await page.setInputFiles("#files", path);
      await page.waitForSelector("#problem:not([hidden])", forever);
      return page.textContent("#problem");
    };
    await page.setInputFiles("#files", model);
    await page.waitForFunction(
      `document.getElementById("file-note").textContent.startsWith("tiny.bin has no tok")`,
    );
    expect(await problemAfter(model)).to.match(/^tiny\.bin: It ends after \d+ tokens, and the model has 300/);
    expect(await problemAfter(inFolder("cut.gguf", ggufFile("F32").subarray(0, 5000)))).to.match(
      /^cut\.gguf: It is cut off/,
    );
    await page.setInputFiles("#files", model);
    await page.waitForFunction(isIn("empty"), undefined, forever);
    await loadedFrom(inFolder("tokenizer.bin", llama2cTokenizerFile(pieces)));
    await page.fill("[name=prompt]", "the sea ".repeat(40));
    await page.click("#write");
    await page.waitForSelector("#problem:not([hidden])", forever);
    expect(await page.textContent("#problem")).to.match(/^The prompt has \d+ tokens, and the model takes 40/);
    expect(await page.getAttribute("html", "data-state")).to.equal("ready");
  });

  // Without the folder the test is listed as pending, by its name.
  (data === undefined ? it.skip : it)(
    `tells the known story with stories260K, from the folder that ${VARIABLE} names, across two swaps`,
    async () => {
      const { text } = JSON.parse(readFileSync(join(data!, "bos.json"), "utf8")) as { text: string };
      await loadedFrom(join(data!, "stories260K.bin"), join(data!, "tok512.bin"));
      const told = await written(page, { prompt: "", tokens: "200" }, 2);
      expect(told).to.deep.equal({ text, parts: ["cpu", "webgpu", "cpu"] });
      expect(await page.textContent("#file-note")).to.equal("stories260K.bin, tok512.bin");
    },
  );
});
