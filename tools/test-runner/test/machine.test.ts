// Tags: engines
import { SoftwareAdapterUnavailable, unavailableReason } from "@backplane/software-adapter";
import { assert } from "chai";
import { chooseMachine } from "#src/machine.js";

describe("machine", () => {
  it("is the machine's own adapter when that is asked for", async () => {
    assert.deepInclude(await chooseMachine("system"), {
      description: "the adapter of this machine",
      env: {},
    });
  });

  it("is SwiftShader, where that runs, when nothing else is asked for", async function () {
    if (unavailableReason() !== undefined) this.skip();
    for (const adapter of [undefined, "software"] as const) {
      const { description, env } = await chooseMachine(adapter);
      assert.match(description, /SwiftShader/);
      assert.property(env, "VK_ICD_FILENAMES");
    }
  });

  it("is never another one where lavapipe is missing", async function () {
    if (unavailableReason() !== undefined) this.skip();
    // The loader skips every driver, so this holds whether or not the machine has a lavapipe.
    const variable = "VK_LOADER_DRIVERS_DISABLE";
    const before = process.env[variable];
    process.env[variable] = "*";
    try {
      const error = await chooseMachine("lavapipe").then(
        ({ description }) => assert.fail(`it is ${description}`),
        (thrown: unknown) => thrown,
      );
      assert.instanceOf(error, SoftwareAdapterUnavailable);
      assert.match((error as Error).message, /fetch-lavapipe\.js/);
    } finally {
      if (before === undefined) delete process.env[variable];
      else process.env[variable] = before;
    }
  });

  it("is a Chromium that draws text, with the fonts that it brings and none of the system's", async function () {
    if (unavailableReason() !== undefined) this.skip();
    // Kinds and names of fonts that most systems have, and characters that Open Sans lacks.
    const families = ["serif", "sans-serif", "monospace", "DejaVu Sans", "Liberation Sans", "Arial"];
    const { launch } = await chooseMachine("software");
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.setContent(
        families.map((family) => `<p style="font-family: ${family}">Text \u6587\u5b57</p>`).join(""),
      );
      const protocol = await page.context().newCDPSession(page);
      await protocol.send("DOM.enable");
      await protocol.send("CSS.enable");
      const { root } = await protocol.send("DOM.getDocument");
      const { nodeIds } = await protocol.send("DOM.querySelectorAll", {
        nodeId: root.nodeId,
        selector: "p",
      });
      assert.lengthOf(nodeIds, families.length);
      for (const [index, nodeId] of nodeIds.entries()) {
        const { fonts } = await protocol.send("CSS.getPlatformFontsForNode", { nodeId });
        const drawn = fonts.map(({ familyName, glyphCount }) => ({ familyName, glyphCount }));
        assert.deepEqual(drawn, [{ familyName: "Open Sans", glyphCount: 7 }], families[index]);
      }
      const { narrow, wide, ink } = await page.evaluate(() => {
        const context = document.createElement("canvas").getContext("2d")!;
        context.font = "20px monospace";
        context.fillText("W", 0, 20);
        const { data } = context.getImageData(0, 0, 40, 40);
        return {
          narrow: context.measureText("i").width,
          wide: context.measureText("W").width,
          ink: data.filter((value, index) => index % 4 === 3 && value === 255).length,
        };
      });
      // Open Sans is not monospaced.
      assert.isAbove(narrow, 0);
      assert.isAbove(wide, 3 * narrow);
      assert.isAbove(ink, 20);
    } finally {
      await browser.close();
    }
  });
});
