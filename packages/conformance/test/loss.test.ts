// Tags: proof
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";
import {
  checkCase,
  createReferenceBackend,
  describeBackend,
  laws,
  loseReferenceDevice,
  type Runner,
  runLaws,
  subjectsIn,
} from "#src/index.js";
import { backendModule, command } from "./support/command.js";

const lossLaws = laws.filter(({ topic }) => topic === "loss");
const quick = { laws: lossLaws, mode: "quick" } as const;
const reference = { name: "reference", create: createReferenceBackend };

describe("The laws on losing a device", () => {
  it("are skipped where nobody says how to lose it, as are those on recordings that need it", async () => {
    for (const { status, reason } of await runLaws({ ...reference, options: quick })) {
      assert.equal(status, "skipped");
      assert.equal(reason, "loseDevice is not declared");
    }
    const needing = laws.filter(({ needsLoss }) => needsLoss);
    assert.sameMembers([...new Set(needing.map(({ topic }) => topic))], ["loss", "recordings"]);
    assert.sameMembers(
      [...lossLaws],
      needing.filter(({ topic }) => topic === "loss"),
    );
  });

  it("use the hook of the subject, which is given an initialised backend of its own", async () => {
    const created: ComputeBackend[] = [];
    const lost: ComputeBackend[] = [];
    const create = () => {
      const backend = createReferenceBackend();
      created.push(backend);
      return backend;
    };
    const loseDevice = async (backend: ComputeBackend) => {
      assert.isTrue(created.includes(backend));
      assert.isNotEmpty(backend.capabilities.device.name);
      lost.push(backend);
      await undefined;
      loseReferenceDevice(backend);
    };
    const results = await runLaws({ name: "reference", create, loseDevice, options: quick });
    assert.isTrue(results.every(({ status }) => status === "kept"));
    assert.isAtLeast(new Set(lost).size, lossLaws.length);
    assert.notInclude(lost, created[0], "the backend that the laws share is left alone");
    const law = "loss: a loss is that of one backend only";
    await checkCase({ name: "reference", create, loseDevice }, law, undefined);
  });

  it("are broken by a hook that does nothing, or fails", async () => {
    const options = { ...quick, law: "listeners hear" };
    const impatient = { ...options, patience: 1000 };
    const [idle] = await runLaws({ ...reference, loseDevice: () => {}, options: impatient });
    assert.match(String(idle!.error), /onLost, after the device was lost: its promise is still open/);
    const loseDevice = () => Promise.reject(new Error("no such switch"));
    const [failing] = await runLaws({ ...reference, loseDevice, options });
    assert.match(String(failing!.error), /no such switch/);
  });

  it("are tests of a test runner, too", async () => {
    const tests = new Map<string, () => Promise<void>>();
    const around: (() => Promise<void>)[] = [];
    const runner: Runner = {
      describe: (_, body) => body(),
      it: (name, body) => tests.set(name, () => body.call(undefined)),
      before: (body) => around.unshift(body),
      after: (body) => around.push(body),
    };
    describeBackend({ ...reference, loseDevice: loseReferenceDevice, options: quick }, runner);
    const [before, after] = around;
    await before!();
    for (const test of tests.values()) await test();
    await after!();
    assert.equal(tests.size, lossLaws.length);
  });

  it("bind what a module exports with loseDevice beside create", async () => {
    class Provider {
      readonly name = "provider";
      readonly lost: ComputeBackend[] = [];
      create() {
        return createReferenceBackend();
      }
      loseDevice(backend: ComputeBackend) {
        this.lost.push(backend);
        loseReferenceDevice(backend);
      }
    }
    const provider = new Provider();
    const [subject] = subjectsIn({ default: provider }, "mine");
    const [result] = await runLaws({ ...subject!, options: { ...quick, law: "listeners hear" } });
    assert.equal(result!.status, "kept");
    assert.lengthOf(provider.lost, 1);
    assert.notProperty(subjectsIn({ default: reference }, "mine")[0], "loseDevice");
    const wrong = { default: { ...reference, loseDevice: "destroy" } };
    assert.throws(() => subjectsIn(wrong, "mine"), /with or without a function loseDevice/);
  });

  it("run on the command line", async () => {
    const args = [backendModule("losable"), "--law", "loss:", "--mode", "quick"];
    const { code, output, errors } = await command(args);
    assert.equal(code, 0, errors);
    assert.match(output, new RegExp(`^${lossLaws.length} kept; `, "m"));
  });
});
