/** The tests that may be skipped, by full name, as docs/skipped-tests.md lists them. */
import { readFileSync } from 'node:fs'

const page = readFileSync(new URL('../docs/skipped-tests.md', import.meta.url), 'utf8')

export const listedSkips: ReadonlySet<string> = new Set(
  [...page.matchAll(/^- `([^`]+)`/gm)].flatMap(([, name]) => name ?? []),
)
