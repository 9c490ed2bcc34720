describe("what a test leaves behind", () => {
  it("rejects unnoticed", async () => {
    void Promise.reject(new Error("nobody listens"));
    await new Promise(() => {});
  });
  it("throws later", async () => {
    setTimeout(() => {
      throw new Error("too late");
    });
    await new Promise(() => {});
  });
});
