/**
 * `authenticate_user`: exchanges a user name and a password for a session token. The tool is for clients, not for
 * models, so the list of tools omits it. The server never logs the tool's arguments and results.
 */
import { type Tool, toolError, toolText } from '../core/tool.ts'
import type { Login, Logins } from '../credentials/accounts.ts'
import { text, toolInput } from './input.ts'

const input = toolInput({
  username: text({ minLength: 1, maxLength: 255 }),
  password: text({ minLength: 1, maxLength: 1_024 }),
})

function answer(login: Login) {
  switch (login.kind) {
    case 'session':
      return toolText(
        JSON.stringify({
          success: true,
          session_token: login.token,
          expires_at: new Date(login.expiresAt).toISOString(),
          message: 'Authentication successful: send session_token as the bearer token until expires_at.',
        }),
      )
    case 'refused':
      return toolError('Authentication failed: invalid username or password')
    case 'disabled':
      return toolError('Authentication failed: the user account is disabled; an administrator can enable it')
    case 'limited':
      return toolError(
        `Authentication failed: too many failed attempts from this address; try again in ${login.retryAfterSeconds} seconds`,
      )
    case 'busy':
      return toolError('Authentication failed: too many logins at this moment; try again in a few seconds')
  }
}

export const authenticateUser = ({ login }: Logins): Tool => ({
  definition: {
    name: 'authenticate_user',
    title: 'Log in',
    description: 'Exchanges a user name and a password for a session token. For clients, not for models.',
    inputSchema: input.schema,
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  },
  isHidden: true,
  isOpen: true,
  scopeOf: () => 'mcp:read',
  call: async (args, context) => {
    const { username, password } = input.read(args)
    return answer(await login(username, password, context.address))
  },
})
