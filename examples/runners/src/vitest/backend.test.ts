import { describeBackend } from "@backplane/conformance";
import { afterAll, beforeAll, describe, it } from "vitest";
import { subject } from "../subject.js";

describeBackend(subject, {
  describe,
  // vitest stops a test after 5 seconds unless it is told otherwise when the test is declared.
  it: (name, body) => it(name, body, 3_600_000),
  before: beforeAll,
  after: afterAll,
});
