import { createBackend } from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, throws } from "./support/fake-driver.js";

describe("what the package of a driver is told", () => {
  it("is the memory behind a live handle", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    await backend.init();
    const [handle, empty] = [backend.alloc(8), backend.alloc(0)];
    assert.strictEqual(backend.memoryOf(handle, "share", "tensor"), backend.native(handle));
    assert.isUndefined(backend.memoryOf(empty, "share", "tensor"));
    backend.free(handle);
    const error = throws("INVALID_HANDLE", () => backend.memoryOf(handle, "share", "tensor"), "tensor");
    assert.match(error.message, /^share: tensor \d+ is not live/);
    driver.events!.lost("power");
    throws("DEVICE_LOST", () => backend.memoryOf(empty, "share", "tensor"));
    await backend.dispose();
  });

  it("is whether the backend is open, in the words of its own operations", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    const refused = (code: Parameters<typeof throws>[0]): void => {
      const error = throws(code, () => backend.assertOpen("share"));
      assert.match(error.message, /^share: /);
      assert.equal(error.operation, "share");
    };
    refused("NOT_INITIALIZED");
    await backend.init();
    backend.assertOpen("share");
    driver.events!.lost("power");
    refused("DEVICE_LOST");
    await backend.init();
    backend.assertOpen("share");
    await backend.dispose();
    refused("DISPOSED");
  });
});
