/** What Stryker is given: how tests are run, and what is not mutated. */
import { WarmRunner } from './runner.ts'

type Node = { type: string; value?: unknown; quasis?: { value: { cooked: string } }[] }

/** What a string or a template says. */
const textOf = ({ type, value, quasis = [] }: Node): string =>
  type === 'StringLiteral' ? String(value) : quasis.map(quasi => quasi.value.cooked).join('$')

const prose = {
  shouldIgnore: ({ node }: { node: Node }) =>
    /\S \S/.test(textOf(node)) ? 'a text for people, which decides nothing' : undefined,
}

export const strykerPlugins = [
  { kind: 'TestRunner', name: 'warm', factory: () => new WarmRunner() },
  { kind: 'Ignore', name: 'prose', value: prose },
]
