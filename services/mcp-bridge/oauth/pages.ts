/**
 * The pages for users: client, scopes, redirect target, and a form. They are plain HTML without script. All input is
 * escaped, and no other site can show a page in a frame.
 */
import { createHash } from 'node:crypto'
import type { HttpResponse } from '../../http/message.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import { noStore } from './form.ts'
import type { AuthorizationRequest } from './records.ts'
import { isLoopback, isPrivateUse } from './redirect.ts'
import type { Branding } from './settings.ts'

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, character => escapes[character] ?? '')

const meanings: Readonly<Record<Scope, string>> = {
  'mcp:read': 'read: use tools and resources that change nothing',
  'mcp:write': 'write: use tools that change data as well',
}

const styleOf = (
  color: string,
) => `:root{color-scheme:light dark;--accent:${color};--on-accent:#fff;--page:#f3f4f6;--card:#fff;--text:#1b1f24;--soft:#57606a;--line:#848d97;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--page:#0f1317;--card:#1a2027;--text:#e8ebee;--soft:#a3adb8;--line:#6e7883;--bad:#ffb4ab}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,sans-serif}
main{width:100%;max-width:26rem;background:var(--card);border-radius:.75rem;padding:2rem;box-shadow:0 1px 3px #0003}
h1{margin:0 0 .25rem;font-size:1.5rem;line-height:1.25}
p{margin:.5rem 0}
.soft{color:var(--soft);font-size:.9rem}
.warn,.bad{border-left:.25rem solid var(--bad);padding:.25rem .75rem;margin:1rem 0}
.bad{color:var(--bad)}
ul{padding-left:1.25rem;margin:.5rem 0}
strong,code{overflow-wrap:anywhere}
label{display:block;margin-top:1rem;font-weight:600}
input{display:block;width:100%;margin-top:.25rem;padding:.6rem .7rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--line);border-radius:.4rem}
.buttons{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.5rem}
button{flex:1 1 8rem;padding:.65rem 1rem;font:inherit;font-weight:600;border-radius:.4rem;border:1px solid var(--line);background:transparent;color:inherit;cursor:pointer}
button.first{background:var(--accent);border-color:var(--accent);color:var(--on-accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
@media (prefers-color-scheme:dark){:focus-visible{outline-color:#9ecbff}}
footer{margin-top:1.5rem;border-top:1px solid #8884;padding-top:.75rem}`

/** The CSP source for a form's target. Browsers also check redirects that follow the form. */
export function formTarget(uri: string): string {
  const { protocol, host } = new URL(uri)
  // CSP has no syntax for an IPv6 address. For a private scheme, CSP can name only the scheme.
  return host.startsWith('[') || isPrivateUse(uri) ? protocol : `${protocol}//${host}`
}

type ConsentPage = {
  readonly request: AuthorizationRequest
  readonly csrfToken: string
  /** The URL that receives the form. */
  readonly action: string
  /** A form with user name and password, or a redirect to the provider with this host. */
  readonly login:
    | { readonly kind: 'password'; readonly username: string }
    | { readonly kind: 'provider'; readonly host: string }
  /** Form targets besides the page's own origin. */
  readonly formTargets: readonly string[]
  readonly problem: string | undefined
}

export class Pages {
  readonly #branding: Branding
  readonly #style: string
  readonly #styleHash: string

  constructor(branding: Branding) {
    this.#branding = branding
    this.#style = styleOf(branding.primaryColor ?? '#1f5f99')
    this.#styleHash = createHash('sha256').update(this.#style).digest('base64')
  }

  #page(status: number, body: string, formTargets: readonly string[]): HttpResponse {
    const { pageTitle, footerText } = this.#branding
    const footer = footerText === '' ? '' : `<footer class="soft">${escapeHtml(footerText)}</footer>`
    const policy = [
      "default-src 'none'",
      `style-src 'sha256-${this.#styleHash}'`,
      `form-action ${["'self'", ...formTargets].join(' ')}`,
      "frame-ancestors 'none'",
      "base-uri 'none'",
    ].join('; ')
    return {
      status,
      headers: [
        ['Content-Type', 'text/html; charset=utf-8'],
        ['Content-Security-Policy', policy],
        ['X-Frame-Options', 'DENY'],
        ['X-Content-Type-Options', 'nosniff'],
        // With this policy, a form of the page sends its origin, but other sites do not receive the page's address.
        ['Referrer-Policy', 'same-origin'],
        ['Cross-Origin-Opener-Policy', 'same-origin'],
        ...noStore,
      ],
      body: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(pageTitle)}</title>
<style>${this.#style}</style>
</head>
<body>
<main>
${body}
${footer}
</main>
</body>
</html>
`,
    }
  }

  /** A page for errors that the server cannot send to a client. */
  problem(status: number, message: string): HttpResponse {
    return this.#page(status, `<h1>This did not work</h1>\n<p role="alert">${escapeHtml(message)}</p>`, [])
  }

  #fields({ login }: ConsentPage): string {
    if (login.kind === 'provider') return ''
    const { usernameLabel, passwordLabel } = this.#branding
    return `<label for="username">${escapeHtml(usernameLabel)}</label>
<input id="username" name="username" autocomplete="username" autocapitalize="none" spellcheck="false" required maxlength="128" value="${escapeHtml(login.username)}"${login.username === '' ? ' autofocus' : ''}>
<label for="password">${escapeHtml(passwordLabel)}</label>
<input id="password" name="password" type="password" autocomplete="current-password" required maxlength="1024"${login.username === '' ? '' : ' autofocus'}>`
  }

  consent(page: ConsentPage, status = 200): HttpResponse {
    const { request, csrfToken, action, login, problem, formTargets } = page
    const { heading, subtitle, buttonText } = this.#branding
    const { host } = new URL(request.redirectUri)
    const local =
      isLoopback(request.redirectUri) || isPrivateUse(request.redirectUri)
        ? '<p class="warn">It runs on this computer. Continue only if you have just started it yourself.</p>'
        : ''
    const scopes = request.scopes.map(scope => `<li>${escapeHtml(meanings[scope])}</li>`).join('')
    const idHost = URL.canParse(request.clientId)
      ? `, known by <code>${escapeHtml(new URL(request.clientId).host)}</code>,`
      : ''
    const first = login.kind === 'provider' ? `Allow, and continue to ${login.host}` : buttonText
    const body = `<h1>${escapeHtml(heading)}</h1>
${subtitle === '' ? '' : `<p class="soft">${escapeHtml(subtitle)}</p>`}
<p><strong>${escapeHtml(request.clientName)}</strong>${idHost} asks to use this server for you, and may then:</p>
<ul>${scopes}</ul>
<p class="soft">You will be sent to <code>${escapeHtml(host)}</code>.</p>
${local}
${problem === undefined ? '' : `<p class="bad" role="alert">${escapeHtml(problem)}</p>`}
<form method="post" action="${escapeHtml(action)}">
<input type="hidden" name="csrf_token" value="${escapeHtml(csrfToken)}">
${this.#fields(page)}
<div class="buttons">
<button class="first" name="decision" value="allow">${escapeHtml(first)}</button>
<button name="decision" value="deny" formnovalidate>Deny</button>
</div>
</form>`
    return this.#page(status, body, formTargets)
  }
}
