// Tags: kernels, pure, long
import { checkSuite } from "./suite.js";

describe("the suite of tfjs-core on WebGPU", () => {
  it("passes, but for the specs that are listed with their reasons", async () => {
    await checkSuite("webgpu", 4140);
  });
});
