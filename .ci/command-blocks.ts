/** The command blocks of the documents: which test runs each block, or why no test does. `documents.test.ts` checks both lists. */

export type CommandBlock = { heading: string; line: number; lines: string[] }

const fence = /^ *```(\w*)/
const isShell = (language: string): boolean => ['console', 'sh', 'bash'].includes(language)
/** First words of indented blocks that contain commands. Other indented blocks are configuration or diagrams. */
const command =
  /^(\$ |\w+\(\) |[A-Z_]+=(\$\(|"|\S+ \w)|(node )?(bin\/)?espalier(\.mjs)? |node bin|(curl|kubectl|k|call|helm|make|psql|openssl|docker|git|cat|cp|eval|export) [^ ,])/

/** Returns the fenced and indented command blocks, each with the heading above it. */
export function commandBlocks(document: string): CommandBlock[] {
  const lines = document.split('\n')
  const blocks: CommandBlock[] = []
  let heading = ''
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (/^#+ /.test(line)) heading = line.replace(/^#+ /, '')
    const language = fence.exec(line)?.[1]
    const begin = at
    const block: string[] = []
    if (language !== undefined) {
      for (at++; at < lines.length && !fence.test(lines[at] ?? ''); at++) block.push(lines[at] ?? '')
      if (isShell(language)) blocks.push({ heading, line: begin + 1, lines: block })
    } else if (/^ {4}\S/.test(line) && (lines[at - 1] ?? '') === '') {
      for (; /^ {4}/.test(lines[at] ?? ''); at++) block.push((lines[at] ?? '').slice(4))
      if (block.some(each => command.test(each)) && command.test(block.find(each => !each.startsWith('#')) ?? ''))
        blocks.push({ heading, line: begin + 1, lines: block })
      at--
    }
  }
  return blocks
}

/** `headings`: the test runs only the blocks below these headings. Default: all blocks of the document. */
type Run = { file: string; headings?: readonly string[]; test: string }

export const run: readonly Run[] = [
  { file: 'README.md', headings: ['First database'], test: 'e2e/cli.test.ts' },
  {
    file: 'docs/cli.md',
    headings: ['Create, query, branch', 'Connect', 'Back up and restore', 'Observe and operate', 'Delete'],
    test: 'e2e/cli.test.ts',
  },
  {
    file: 'docs/tour.md',
    headings: ['A tour', 'The REST service by itself', 'The tool server by itself'],
    test: 'e2e/commands.test.ts',
  },
  {
    file: 'docs/rest.md',
    headings: [
      'Columns',
      'Filters',
      'Embedding',
      'Writing',
      'Prefer',
      'Lines of JSON',
      'Paging by keys',
      'Several requests in one transaction',
      'OpenAPI 3.1',
      'Types of TypeScript',
      'Limits by role',
      'Which grant was missing',
    ],
    test: 'services/rest/documentation.test.ts',
  },
  { file: 'docs/api.md', headings: ['A first database'], test: 'e2e/commands.test.ts' },
  { file: 'docs/connect.md', headings: ['Connect to a database'], test: 'e2e/commands.test.ts' },
  { file: 'docs/branches.md', headings: ['Create a branch'], test: 'e2e/commands.test.ts' },
  {
    file: 'docs/backups.md',
    headings: ['Take a backup', 'Verify a backup', 'Restore a database in place', 'The previous volume'],
    test: 'e2e/commands.test.ts',
  },
]

/** Blocks that no test runs. `headings`: only the blocks below these headings. Default: all blocks of the document. */
type NotRun = { file: string; headings?: readonly string[]; reason: string }

const cluster = 'needs a Kubernetes cluster, with storage and addresses of its own'

export const notRun: readonly NotRun[] = [
  { file: 'README.md', headings: ['On Kubernetes'], reason: cluster },
  { file: 'README.md', headings: ['Developing'], reason: 'runs the tests themselves' },
  { file: 'CONTRIBUTING.md', reason: 'runs the tests themselves' },
  { file: 'AGENTS.md', reason: 'runs the tests themselves' },
  { file: 'docs/testing-the-operator.md', reason: 'runs the tests themselves' },
  {
    file: 'docs/api.md',
    headings: ['Wait for a change', 'Run SQL', 'Try a service'],
    reason:
      'an endless stream, and tables that the reader has; api/events, e2e/sql.test.ts and e2e/services.test.ts send such requests',
  },
  { file: 'docs/archive.md', reason: 'needs a bucket; bin/commands/archive runs the commands on a store of the test' },
  {
    file: 'docs/cli.md',
    headings: ['Choose an API'],
    reason: 'needs an OpenID provider; cli/commands/login.test.ts has one',
  },
  {
    file: 'docs/cli.md',
    headings: ['Completion'],
    reason: 'changes the files of a shell; cli/completion tests the scripts',
  },
  { file: 'docs/clouds.md', reason: cluster },
  { file: 'docs/connect.md', headings: ['Connection strings'], reason: 'has the address and password of the reader' },
  {
    file: 'docs/import.md',
    reason: 'needs a second server; operator/postgres/move.test.ts runs the commands between two databases',
  },
  { file: 'docs/kubernetes.md', reason: cluster },
  { file: 'docs/mcp.md', reason: 'starts servers on fixed ports; the tour starts one on a free port' },
  { file: 'docs/one-machine.md', reason: 'needs Docker; images/embedded/image.test.ts runs the image' },
  { file: 'docs/rag.md', reason: 'needs a language model; services/rag tests the commands with simulated models' },
  {
    file: 'docs/rest.md',
    headings: ['A first tour'],
    reason: 'needs psql and port 3000; services/rest/documentation.test.ts builds the database from its statements',
  },
  { file: 'docs/tour.md', headings: ['Answers from documents'], reason: 'needs a language model' },
  { file: 'docs/troubleshooting.md', reason: cluster },
  { file: 'docs/upgrade.md', reason: 'needs a second version; e2e/upgrade upgrades from another revision' },
]
