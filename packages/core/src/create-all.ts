import { checkDescription, checkDriver } from "./check-driver.js";
import { CreatedBackend, type DriverBackend, type KnownOperations } from "./create.js";
import type { BackendDriver } from "./driver.js";
import { defineMethods } from "./ops/define-methods.js";
import { operations } from "./ops/index.js";

class BackendOfAll<Memory> extends CreatedBackend<Memory> {}
defineMethods(BackendOfAll.prototype, operations);

/** There is no other operation of core to give advice on. */
const known: KnownOperations = { operations, advice: () => "", checkDescription };

/**
 * Makes a backend from a driver. It adds lifecycle, handles, argument checks, statistics and errors. The
 * driver sees only valid calls of operations that it has. Throws `INVALID_ARGUMENT` if the driver lacks a member, or
 * declares operations, arguments or values that do not exist; `init` rejects with it if the result of `open` is malformed.
 */
export function createBackend<Memory>(driver: BackendDriver<Memory>): DriverBackend<Memory> {
  checkDriver(driver);
  return new BackendOfAll(driver, known);
}
