// Tags: engines
import { cpu } from "@backplane/backend-cpu";
import { firstDigits, loadDigits } from "@backplane/example-digits/data.js";
import { batchSize, imagesOf, labelsOf, newModel } from "@backplane/example-tfjs/model.js";
import { launchBrowser, type StartedPage, startPage } from "@backplane/page/testing.js";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";

const main = new URL("../dist/main.js", import.meta.url);

/** The losses of so many steps, by the CPU in Node.js. */
async function lossesOf(steps: number): Promise<number[]> {
  const registration = await register(tf, [cpu()]);
  const digits = firstDigits(loadDigits().training, steps * batchSize);
  const model = newModel();
  const losses: number[] = [];
  await model.fit(imagesOf(digits, digits.count), labelsOf(digits, digits.count), {
    ...{ batchSize, shuffle: false, verbose: 0, yieldEvery: "never" },
    callbacks: {
      onBatchEnd: (_, logs) => {
        losses.push(logs!.loss as number);
      },
    },
  });
  await registration.dispose();
  return losses;
}

/** Hangs are ended by the test runner. */
const forever = { timeout: 0 };

const isReady = `document.documentElement.dataset.state === "ready"`;

interface Training {
  readonly losses: readonly number[];
  /** In the order in which they took over. */
  readonly backends: readonly string[];
  readonly status: string;
}

/** Trains, and presses a button after each of these steps. */
async function trained(
  page: Page,
  steps: number,
  presses: readonly { readonly after: number; readonly button: "swap" | "stop" }[],
): Promise<Training> {
  await page.fill("[name=steps]", String(steps));
  const shown = await page.evaluateHandle((given) => {
    const status = document.getElementById("status")!;
    const seen: [number, number][] = [];
    const observer = new MutationObserver(() => {
      const [, number, loss] = /^Step (\d+) of \d+, loss ([\d.]+)$/.exec(status.textContent!) ?? [];
      if (number === undefined) return;
      seen.push([Number(number), Number(loss)]);
      for (const { after, button } of given)
        if (after === Number(number)) document.getElementById(button)!.click();
    });
    observer.observe(status, { childList: true, subtree: true, characterData: true });
    return { seen, end: () => observer.disconnect() };
  }, presses);
  await page.click("#train");
  await page.waitForFunction(isReady, undefined, forever);
  const seen = await shown.evaluate((all) => {
    all.end();
    return all.seen;
  });
  expect(seen.map(([number]) => number)).to.deep.equal(seen.map((_, i) => i + 1));
  expect(await page.isHidden("#problem")).to.equal(true);
  const backends = await page.$$eval("#plot polyline", (lines) =>
    (lines as unknown as SVGElement[]).map(({ dataset }) => dataset.backend!),
  );
  return { losses: seen.map(([, loss]) => loss), backends, status: (await page.textContent("#status"))! };
}

describe("the page of TensorFlow.js", () => {
  const steps = 60;
  let expected: readonly number[];
  let server: StartedPage | undefined;
  let browser: Browser | undefined;
  let page: Page;
  const faults: string[] = [];
  before(async () => {
    expected = await lossesOf(steps);
    server = await startPage(main);
    browser = await launchBrowser();
    page = await browser.newPage();
    page.on("pageerror", (error) => faults.push(error.message));
    await page.goto(server!.address);
    await page.waitForFunction(isReady, undefined, forever);
  });
  afterEach(() => {
    expect(faults).to.deep.equal([]);
  });
  after(async () => {
    // Also if what comes before the tests has failed.
    try {
      await browser?.close();
    } finally {
      await server?.stop();
    }
  });

  /**
   * Backends round differently, and every step builds on the one before it. Within ten steps of the last swap this is hardly more
   * than the rounding of the losses that the page shows.
   */
  const assertExpected = ({ losses }: Training, lastSwap = 0): void => {
    for (const [i, loss] of losses.entries()) {
      const tolerance = i < lastSwap + 10 ? 2e-4 : 0.01;
      expect(loss, `loss of step ${i + 1}`).to.be.closeTo(expected[i]!, tolerance);
    }
  };

  it("trains as Node.js does, across swaps in the middle of fit, and plots the loss of each step", async () => {
    expect(await page.textContent("#device")).to.match(/^WebAssembly SIMD, \d threads?$/);
    const training = await trained(page, steps, [
      { after: 20, button: "swap" },
      { after: 26, button: "swap" },
    ]);
    expect(training.losses).to.have.length(steps);
    assertExpected(training, 26);
    expect(training.losses.at(-1)).to.be.lessThan(training.losses[0]! / 2);
    expect(training.backends).to.deep.equal(["cpu", "webgpu", "cpu"]);
    // Each line begins where the one before it ends.
    const points = await page.$$eval("#plot polyline", (lines) =>
      lines.map((line) => line.getAttribute("points")!.split(" ")),
    );
    expect(points.map(({ length }) => length)).to.deep.equal([20, 7, 35]);
    expect(points.slice(1).map(([first]) => first)).to.deep.equal(points.slice(0, -1).map((p) => p.at(-1)));
    const [, accuracy] = /^After 60 steps the loss is [\d.]+, and ([\d.]+)% of the/.exec(training.status)!;
    expect(Number(accuracy)).to.be.greaterThan(70);
  });

  it("stops when asked to, and begins anew", async () => {
    const ended = await trained(page, 10_000, [{ after: 5, button: "stop" }]);
    expect(ended.status).to.match(/^After \d+ steps the loss is/);
    expect(ended.losses.length).to.be.within(5, 9_999);
    // The page may take some more steps before it handles a click.
    const again = await trained(page, 3, []);
    assertExpected(again);
    expect(again.backends).to.deep.equal(["cpu"]);
  });

  it("swaps while nothing is under way", async () => {
    await page.click("#swap");
    await page.waitForFunction(`document.getElementById("swap").textContent === "Go on with the CPU"`);
    await page.click("#swap");
    await page.waitForFunction(`document.getElementById("swap").textContent === "Go on with WebGPU"`);
  });
});
