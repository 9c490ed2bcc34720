export default () => undefined;

throw new Error("a driver library is missing");
