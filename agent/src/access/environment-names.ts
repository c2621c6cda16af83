/** The longest name that is compared: no real name is longer. */
export const MAX_NAME = 256

/**
 * Variables that change how most programs start, which code they load, or whom they trust, and what
 * reads them. `*` stands for any characters; no prefix or end here describes devices. The case does
 * not count: curl reads http_proxy.
 */
const START_VARIABLES: readonly (readonly [reader: string, names: string])[] = [
  [
    'the dynamic loader and the C library read it',
    // `_*` such as _JAVA_OPTIONS and _RLD_LIST. glibc has the others in unsecvars.h, mostly.
    `
      *LIBRARY_PATH *PRELOAD DYLD_* GCONV_PATH GETCONF_DIR GLIBC_* HOSTALIASES LANG LANGUAGE LC_*
      LD_* LOCALDOMAIN LOCPATH MALLOC_* NLSPATH RESOLV_* RES_OPTIONS TEMP TMP TMPDIR TZ TZDIR _*
    `,
  ],
  ['shells read it', 'BASH* CDPATH ENV IFS PATH PS4 SHELL SHELLOPTS ZDOTDIR'],
  ['programs find their files or options by it', 'HOME XDG_*'],
  ['Java reads it', '*JAVA_OPTIONS *_OPTS CLASSPATH JAVA* JDK_*'],
  ['.NET reads it', 'COMPLUS_* CORECLR_* DOTNET_*'],
  [
    'Node.js reads it',
    // Not NODE_*: devices have a NODE_ID.
    'NODE_EXTRA* NODE_OPTIONS NODE_PATH NODE_REDIRECT* NODE_TLS* NODE_V8* NPM_*',
  ],
  ['Python reads it', 'PYTHON*'],
  [
    'a language runtime reads it',
    `
      BUNDLE_* ERL_* GEM_HOME GEM_PATH GODEBUG LUA_CPATH* LUA_INIT* LUA_PATH* PERL* PHPRC
      PHP_* RUBY*
    `,
  ],
  [
    'a library loads code by it',
    `
      *DRIVERS_PATH *DRIVER_PATH *MODULES_PATH *MODULE_DIR *MODULE_PATH *PLUGINS_PATH *PLUGIN_DIR
      *PLUGIN_PATH *_GENTL*_PATH
    `,
  ],
  [
    'it changes whom a program trusts, or where its secrets go',
    `
      *CA_BUNDLE ALL_PROXY CURL_* DBUS_* GIT_* HTTPS_PROXY HTTP_PROXY NO_PROXY OPENSSL_*
      SSH_ASKPASS* SSH_AUTH_SOCK SSLKEYLOGFILE SSL_CERT*
    `,
  ],
  [
    'a container runtime, a service manager or their clients read it',
    `
      AMD_VISIBLE_DEVICES DOCKER_* HABANA_VISIBLE_DEVICES NOTIFY_SOCKET NVIDIA_DRIVER*
      NVIDIA_VISIBLE*
    `,
  ],
  ['Kubernetes sets it', 'KUBE*'],
  ['the agent sets it', 'AKRI_BROKER_INFO*'],
]

const READERS = START_VARIABLES.map(([reader, names]) => {
  const expressions = names.trim().replaceAll('*', '.*').split(/\s+/)
  return { reader, names: new RegExp(`^(?:${expressions.join('|')})$`, 'is') }
})

/**
 * A handler describes devices; the author of a broker decides about its programs. No list of names
 * is complete: an operator can allow the names of a handler only.
 * @returns why a handler must not report a property: how a program would read it; undefined for a
 * property that only describes a device
 */
export function startEffect(name: string, value: string): string | undefined {
  if (name.length > MAX_NAME) return `its name has more than ${MAX_NAME} characters`
  // The name of a variable ends at '='.
  if (/[=\p{Cc}\s]/u.test(name)) return "its name has '=', white space or control characters"
  // Old versions of bash run what follows the function in such a value.
  if (value.startsWith('() {')) return 'shells read its value as a function'
  return READERS.find(({ names }) => names.test(name))?.reader
}
