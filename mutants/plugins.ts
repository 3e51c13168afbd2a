/** Stryker's plugins: the test runner, and rules for code that is not mutated. */
import { WarmRunner } from './runner.ts'

type Node = {
  type: string
  value?: unknown
  quasis?: { value: { cooked: string } }[]
  operator?: string
  right?: Node
}
type Path = { node: Node; parent?: Node }

/** Returns the text of a string or a template. */
const textOf = ({ type, value, quasis = [] }: Node): string =>
  type === 'StringLiteral' ? String(value) : quasis.map(quasi => quasi.value.cooked).join('$')

/** Ignores texts with several words. */
const prose = {
  shouldIgnore: ({ node }: Path) =>
    /\S \S/.test(textOf(node)) ? 'text for users, which changes no decision' : undefined,
}

/** Ignores the defaults `name = ''` and `?? ''`. The types require them, but the cluster always sets a value. */
const standIns = {
  shouldIgnore: ({ node, parent }: Path) => {
    const isDefault =
      parent?.type === 'AssignmentPattern' || (parent?.type === 'LogicalExpression' && parent.operator === '??')
    const isEmpty = node.type === 'StringLiteral' && node.value === '' && parent?.right === node
    return isDefault && isEmpty ? 'default for a missing value' : undefined
  },
}

export const strykerPlugins = [
  { kind: 'TestRunner', name: 'warm', factory: () => new WarmRunner() },
  { kind: 'Ignore', name: 'prose', value: prose },
  { kind: 'Ignore', name: 'stand-ins', value: standIns },
]
