/** Full names of the tests that may be skipped, from docs/skipped-tests.md. */
import { readFileSync } from 'node:fs'

const page = readFileSync(new URL('../docs/skipped-tests.md', import.meta.url), 'utf8')

export const listedSkips: ReadonlySet<string> = new Set(
  [...page.matchAll(/^- `([^`]+)`/gm)].flatMap(([, name]) => name ?? []),
)
