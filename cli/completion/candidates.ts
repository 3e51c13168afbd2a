/** Finds the candidates for a command line: commands, options, or names of one kind, such as databases. */
import type { Argument, Command, Option } from 'commander'

export type Names = 'database' | 'branch' | 'backup' | 'size' | 'profile'

/** The candidates: words, or names of a kind. `database` is the database on the command line. */
type Wanted = { kind: 'words'; words: readonly string[] } | { kind: 'names'; of: Names; database: string | undefined }

/** The kind of name that an option or argument accepts. */
const valuesOf: Readonly<Record<string, Names>> = {
  database: 'database',
  branch: 'branch',
  from: 'branch',
  backup: 'backup',
  'from-backup': 'backup',
  size: 'size',
  profile: 'profile',
  use: 'profile',
}

const nothing: Wanted = { kind: 'words', words: [] }

/** Returns the subcommand that the words name, and the words after it. */
function leafOf(command: Command, words: readonly string[]): { leaf: Command; rest: readonly string[] } {
  const [first, ...rest] = words
  const found = command.commands.find(one => first !== undefined && [one.name(), one.alias()].includes(first))
  return found === undefined ? { leaf: command, rest: words } : leafOf(found, rest)
}

const takesValue = (option: Option | undefined): boolean => option !== undefined && (option.required || option.optional)

/** Returns the words that are neither options nor values of options, and the value of --database. */
function positionalsOf(leaf: Command, words: readonly string[]) {
  const positionals: string[] = []
  let database: string | undefined
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    if (!word.startsWith('-')) {
      positionals.push(word)
      continue
    }
    const option = optionOf(leaf, word)
    if (!takesValue(option) || word.includes('=')) continue
    at++
    if (option?.name() === 'database') database = words[at]
  }
  return { positionals, database }
}

const optionOf = (leaf: Command, word: string): Option | undefined =>
  leaf.options.find(({ long, short }) => [long, short].includes(word.split('=')[0]))

function valuesFor(field: Option | Argument | undefined, database: string | undefined): Wanted {
  if (field === undefined) return nothing
  const choices: readonly string[] | undefined = field.argChoices
  if (choices !== undefined) return { kind: 'words', words: choices }
  const of = valuesOf[field.name()]
  return of === undefined ? nothing : { kind: 'names', of, database }
}

/** Returns the candidates for the last word. `words` are the words after the command's name. */
export function wantedOf(command: Command, words: readonly string[]): Wanted {
  const current = words.at(-1) ?? ''
  const { leaf, rest } = leafOf(command, words.slice(0, -1))
  const { positionals, database: named } = positionalsOf(leaf, rest)
  const argumentsOf = leaf.registeredArguments
  const databaseAt = argumentsOf.findIndex(argument => argument.name() === 'database')
  const database = named ?? positionals[databaseAt]
  const before = optionOf(leaf, rest.at(-1) ?? '')
  if (takesValue(before) && !(rest.at(-1) ?? '').includes('=')) return valuesFor(before, database)
  if (current.startsWith('-')) {
    const flags = leaf.options.filter(({ hidden }) => !hidden).flatMap(({ long }) => (long ? [long] : []))
    return { kind: 'words', words: [...flags, '--help'] }
  }
  if (leaf.commands.length > 0 && positionals.length === 0)
    return { kind: 'words', words: leaf.commands.map(one => one.name()) }
  return valuesFor(argumentsOf[positionals.length], database)
}
