/** `espalier logout`: deletes a profile with its token, and revokes its refresh token at the provider. */
import { escapeLines } from '../../values/escape.ts'
import { act, type ClientCommand, createCommand } from '../arguments.ts'
import { UsageError } from '../errors.ts'
import { withProfiles } from '../profiles.ts'

const command: ClientCommand = run =>
  act<{ profile?: string }>(
    run,
    createCommand(run, 'logout', 'Deletes a profile and its token (default: the current profile).'),
    async ({ io, printer }, _, { profile }) => {
      const { name, deleted } = await withProfiles(io.environment, async ({ current, profiles }, write) => {
        const name = profile ?? current
        if (name === undefined || !Object.hasOwn(profiles, name))
          throw new UsageError(
            name === undefined ? 'no profile is current' : `there is no profile ${JSON.stringify(name)}`,
          )
        const { [name]: deleted, ...others } = profiles
        await write({ profiles: others, ...(current === name ? {} : { current }) })
        return { name, deleted }
      })
      printer.done(`The profile ${name} is deleted`, name)
      if (deleted?.oidc?.refreshToken === undefined) return
      const { revoke } = await import('../login/oidc.ts')
      // The profile is deleted even if the revocation fails.
      await revoke(deleted.oidc).catch((error: unknown) => {
        io.errors.write(`${escapeLines(error instanceof Error ? error.message : String(error))}\n`)
      })
    },
  )
export default command
