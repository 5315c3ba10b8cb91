import { expect, it } from "vitest";
import { isolated } from "./plot";

it("draws single values as points", () => expect(isolated([1, null, 2, 3, null, undefined, 4])).toEqual([0, 6]));
