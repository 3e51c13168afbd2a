/** `espalier archive fetch`: one WAL file out of the archive, as Postgres's `restore_command` (manual, "Archive Recovery Settings"). */
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { isWalFile, walPrefix } from '../../../archive/names.ts'
import { unsealed } from '../../../archive/object/seal.ts'
import { type Command, parseArguments, UsageError } from '../../command.ts'
import { incarnationHelp, incarnationOf, incarnationOptions, storeHelp, storeOptions, withArchive } from './open.ts'

const help = `Reads one WAL file out of the archive. Postgres runs it as its restore_command.

Usage: espalier archive fetch --store URL --key-file FILE --database ID [options] FILE PATH

  FILE                     the name of the WAL file: %f
  PATH                     where to write it: %p

${incarnationHelp}

${storeHelp}

Exit code: 0 written, 1 the archive does not have it, 2 wrong usage, 200 the archive failed: Postgres ends its recovery then,
and does not go on without the file.`

/** Postgres stops at a code above 125, and treats any other as the end of the archive. */
const failed = 200

const command: Command = {
  summary: 'read one WAL file',
  help,
  async run(args) {
    const { values: flags, positionals } = parseArguments(args, { ...storeOptions, ...incarnationOptions })
    const [file, path, ...others] = positionals
    if (file === undefined || path === undefined || others.length > 0)
      throw new UsageError('FILE and PATH are required')
    if (!isWalFile(file)) throw new UsageError(`${JSON.stringify(file)} is not the name of a WAL file`)
    const name = `${walPrefix(incarnationOf(flags))}${file}`
    try {
      return await withArchive(flags, async ({ store, keys }) => {
        const stored = await store.read(name)
        if (stored === undefined) return 1
        const { content } = await unsealed(stored, { name, keys })
        // Postgres never sees a part of a file.
        await pipeline(content, createWriteStream(`${path}.partial`, { mode: 0o600 }))
        await rename(`${path}.partial`, path)
        return 0
      })
    } catch (error) {
      await rm(`${path}.partial`, { force: true })
      if (error instanceof UsageError) throw error
      console.error(`espalier archive fetch: ${error instanceof Error ? error.message : String(error)}`)
      return failed
    }
  },
}
export default command
